-- What was the fastest sample of each stack? It orders nothing: stacks may be compared within
-- blocks alone (stackgen explore, stackgen advise). Parameter indicator: its name.
SELECT substr(stacks.id, 1, 12) AS stack, substr(machines.id, 1, 12) AS machine,
       indicators.arguments, count(*) AS inspections,
       count(DISTINCT i.campaign_key || ' ' || i.block) AS blocks,
       min(i.best_s) AS best_s
FROM indicators JOIN inspection_rows AS i ON i.indicator_key = indicators.key
JOIN stacks ON stacks.key = i.stack_key JOIN machines ON machines.key = i.machine_key
WHERE indicators.name = :indicator AND i.outcome = 'ok'
GROUP BY i.stack_key, i.machine_key, i.indicator_key
ORDER BY indicators.arguments, machine, stack;
