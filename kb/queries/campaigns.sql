-- Which campaigns were run, what for, and how far did each get? No parameters.
SELECT substr(campaigns.id, 1, 12) AS campaign, campaigns.kind, campaigns.started_at,
       campaigns.request, campaigns.seed, count(i.key) AS inspections,
       coalesce(max(i.block), 0) AS blocks
FROM campaigns LEFT JOIN inspection_rows AS i ON i.campaign_key = campaigns.key
GROUP BY campaigns.key ORDER BY campaigns.started_at, campaigns.id;
