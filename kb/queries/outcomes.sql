-- How did inspections end, per indicator? No parameters.
SELECT indicators.name AS indicator, i.outcome, count(*) AS inspections
FROM inspection_rows AS i JOIN indicators ON indicators.key = i.indicator_key
GROUP BY indicators.name, i.outcome
ORDER BY indicators.name, inspections DESC, i.outcome;
