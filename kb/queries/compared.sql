-- Which pairs of stacks share blocks, so that they can be compared, and how many? No parameters.
-- Blocks of a search only choose, and compare nothing. Blocks that a report sets aside are counted.
SELECT substr(one.id, 1, 12) AS a, substr(other.id, 1, 12) AS b,
       indicators.name AS indicator, indicators.arguments,
       count(DISTINCT a.campaign_key || ' ' || a.block) AS blocks
FROM inspection_rows AS a
JOIN inspection_rows AS b ON b.campaign_key = a.campaign_key AND b.block = a.block
    AND b.indicator_key = a.indicator_key
JOIN stacks AS one ON one.key = a.stack_key
JOIN stacks AS other ON other.key = b.stack_key AND other.id > one.id
JOIN indicators ON indicators.key = a.indicator_key
WHERE a.block > 0 AND a.outcome = 'ok' AND b.outcome = 'ok'
    AND a.role IN ('baseline', 'candidate') AND b.role IN ('baseline', 'candidate')
GROUP BY a.stack_key, b.stack_key, a.indicator_key
ORDER BY blocks DESC, one.id, other.id, indicators.name, indicators.arguments;
