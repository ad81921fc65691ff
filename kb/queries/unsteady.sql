-- Where had the warm-up not settled when the samples began? No parameters.
SELECT indicators.name AS indicator, indicators.arguments,
       sum(NOT i.steady) AS not_steady, count(*) AS inspections
FROM inspection_rows AS i JOIN indicators ON indicators.key = i.indicator_key
WHERE i.outcome = 'ok'
GROUP BY i.indicator_key HAVING not_steady > 0
ORDER BY not_steady DESC, indicators.name, indicators.arguments;
