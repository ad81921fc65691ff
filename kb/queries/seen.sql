-- Which releases did an index show, and when for the first time? Parameter name: the package.
SELECT version, first_seen FROM releases_seen WHERE name = :name ORDER BY first_seen, version;
