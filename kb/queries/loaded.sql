-- Which distributions with compiled code does each indicator load? No parameters.
SELECT indicators.name AS indicator, d.name, d.version, count(*) AS inspections
FROM inspection_rows AS i JOIN load_set_rows AS m ON m.load_set_key = i.load_set_key
JOIN distributions AS d ON d.key = m.distribution_key
JOIN indicators ON indicators.key = i.indicator_key
WHERE m.compiled
GROUP BY indicators.name, d.name, d.version
ORDER BY indicators.name, d.name, d.version;
