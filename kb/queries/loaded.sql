-- Which distributions with compiled code does each indicator load? No parameters.
SELECT indicators.name AS indicator, loaded.name, loaded.version, count(*) AS inspections
FROM inspection_loaded AS loaded
JOIN inspections ON inspections.id = loaded.inspection_id
JOIN indicators ON indicators.id = inspections.indicator_id
WHERE loaded.compiled
GROUP BY indicators.name, loaded.name, loaded.version
ORDER BY indicators.name, loaded.name, loaded.version;
