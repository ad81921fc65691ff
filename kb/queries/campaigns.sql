-- Which campaigns were run, what for, and how far did each get? No parameters.
-- Three keys of a request, which are frozen in the ids of campaigns, are shown by today's names.
SELECT substr(campaigns.id, 1, 12) AS campaign, campaigns.kind, campaigns.started_at,
       replace(replace(replace(campaigns.request,
           '"asked":', '"requirements":'), '"reference":', '"baseline":'), '"sides":', '"pair":')
           AS request,
       campaigns.seed, count(i.key) AS inspections, coalesce(max(i.block), 0) AS blocks
FROM campaigns LEFT JOIN inspection_rows AS i ON i.campaign_key = campaigns.key
GROUP BY campaigns.key ORDER BY campaigns.started_at, campaigns.id;
