-- Which stacks failed, how, when, and what was the end of the log? No parameters.
SELECT substr(inspections.stack_id, 1, 12) AS stack, inspections.outcome,
       indicators.name AS indicator, inspections.started_at, substr(inspections.log, -400) AS log
FROM inspections JOIN indicators ON indicators.id = inspections.indicator_id
WHERE inspections.outcome <> 'ok'
ORDER BY inspections.started_at, inspections.id;
