-- How did inspections end, per indicator? No parameters.
SELECT indicators.name AS indicator, inspections.outcome, count(*) AS inspections
FROM inspections JOIN indicators ON indicators.id = inspections.indicator_id
GROUP BY indicators.name, inspections.outcome
ORDER BY indicators.name, inspections DESC, inspections.outcome;
