-- Emulated node types of steady cores cost as much as those of this host's.
INSERT INTO catalog.price
SELECT * REPLACE (regexp_replace(node_type, '\.c(\d+)$', '.s\1') AS node_type)
FROM catalog.price
WHERE node_type IN (
    'emu.native.c25', 'emu.native.c15', 'emu.sse41.c15', 'emu.avx2.c15', 'emu.avx512.c15',
    'emu.avx512.c40', 'emu.avx512.c28', 'emu.avx2.c40', 'emu.sse41.c40'
);
