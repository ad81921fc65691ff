-- Which stacks failed, how, when, and what was the end of the log? No parameters.
SELECT substr(stacks.id, 1, 12) AS stack, i.outcome,
       indicators.name AS indicator, i.started_at, substr(texts.text, -400) AS log
FROM inspection_rows AS i JOIN indicators ON indicators.key = i.indicator_key
JOIN stacks ON stacks.key = i.stack_key JOIN texts ON texts.key = i.log_key
WHERE i.outcome <> 'ok'
ORDER BY i.started_at, i.id;
