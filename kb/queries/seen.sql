-- Which releases did nightly see, when for the first time, on which base, by which indicators?
-- Parameter name: the package.
SELECT version, first_seen, name AS watched FROM releases_seen
WHERE name = :name OR name LIKE :name || ' | %'
ORDER BY first_seen, version, name;
