-- Where had the warm-up not settled when the samples began? No parameters.
SELECT indicators.name AS indicator, indicators.arguments,
       sum(NOT inspections.steady) AS not_steady, count(*) AS inspections
FROM inspections JOIN indicators ON indicators.id = inspections.indicator_id
WHERE inspections.outcome = 'ok'
GROUP BY inspections.indicator_id HAVING not_steady > 0
ORDER BY not_steady DESC, indicators.name, indicators.arguments;
