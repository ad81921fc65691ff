-- Which campaigns were run, what for, and how far did each get? No parameters.
SELECT substr(campaigns.id, 1, 12) AS campaign, campaigns.kind, campaigns.started_at,
       campaigns.request, campaigns.seed, count(inspections.id) AS inspections,
       coalesce(max(inspections.block), 0) AS blocks
FROM campaigns LEFT JOIN inspections ON inspections.campaign_id = campaigns.id
GROUP BY campaigns.id ORDER BY campaigns.started_at, campaigns.id;
