-- Which pairs of stacks share blocks, so that they can be compared, and how many? No parameters.
-- Blocks of a search only choose, and compare nothing. Blocks that a report sets aside are counted.
SELECT substr(a.stack_id, 1, 12) AS a, substr(b.stack_id, 1, 12) AS b,
       indicators.name AS indicator, indicators.arguments,
       count(DISTINCT a.campaign_id || ' ' || a.block) AS blocks
FROM inspections AS a
JOIN inspections AS b ON b.campaign_id = a.campaign_id AND b.block = a.block
    AND b.indicator_id = a.indicator_id AND b.stack_id > a.stack_id
JOIN indicators ON indicators.id = a.indicator_id
WHERE a.block > 0 AND a.outcome = 'ok' AND b.outcome = 'ok'
    AND a.role IN ('baseline', 'candidate') AND b.role IN ('baseline', 'candidate')
GROUP BY a.stack_id, b.stack_id, a.indicator_id
ORDER BY blocks DESC, a.stack_id, b.stack_id, indicators.name, indicators.arguments;
