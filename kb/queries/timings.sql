-- What was the fastest sample of each stack? It orders nothing: stacks may be compared within
-- blocks alone (stackgen explore, stackgen advise). Parameter indicator: its name.
SELECT substr(timings.stack_id, 1, 12) AS stack, substr(timings.machine_id, 1, 12) AS machine,
       indicators.arguments, count(*) AS inspections,
       count(DISTINCT timings.campaign_id || ' ' || timings.block) AS blocks,
       min(timings.best_s) AS best_s
FROM timings JOIN indicators ON indicators.id = timings.indicator_id
WHERE indicators.name = :indicator
GROUP BY timings.stack_id, timings.machine_id, timings.indicator_id
ORDER BY indicators.arguments, machine, stack;
