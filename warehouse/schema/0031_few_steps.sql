-- A host with few steps learns from others and corrects that (models.predictddl.moved): a split of its own.

CREATE OR REPLACE MACRO report.split_of(
    subject_ids, dnns, families, node_types, world_sizes, subject, dnn, family, node_type, world_size
) AS
    CASE
        WHEN len(node_types) > 0 AND list_bool_and(list_transform(node_types, lambda one: regexp_matches(one, '@[^@ ]{1,8}$')))
            THEN 'held_out_host'
        WHEN list_contains(subject_ids, subject) THEN 'seen'
        WHEN list_bool_or(list_transform(node_types, lambda one: regexp_matches(one, '@[^@ ]{1,8}$')))
            THEN 'few_on_host'
        WHEN NOT list_contains(dnns, dnn)
            AND NOT list_contains(families, family) THEN 'held_out_family'
        WHEN dnn IS NOT NULL AND NOT coalesce(list_contains(dnns, dnn), false)
            THEN 'held_out_dnn'
        WHEN NOT list_contains(node_types, node_type) THEN 'held_out_node_type'
        WHEN NOT list_contains(world_sizes, world_size) THEN 'held_out_world_size'
        ELSE 'held_out_scenario'
    END;

COMMENT ON COLUMN report.accuracy.split IS 'How far the subject is from what the fit saw: seen, held_out_scenario, held_out_world_size, held_out_node_type, held_out_dnn, or held_out_family where families are known; held_out_host if no step on this host, few_on_host if it saw steps of other hosts and of this one';
COMMENT ON COLUMN report.asked_accuracy.split IS 'How far the subject is from what the fit saw: seen, held_out_scenario, held_out_world_size, held_out_node_type, held_out_dnn, or held_out_family where families are known; held_out_host if no step on this host, few_on_host if it saw steps of other hosts and of this one';
