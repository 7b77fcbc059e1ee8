"""`reltucker describe-model`: what a run's model is made of."""

from reltucker.cli import options, output


def command(run: options.RunFolder, json: options.Json = False) -> None:
    """Count the parameters of a model.

    nnfp: non-zero free parameters. d_r*: the effective relation size. In the fixed-core view the
    core is given and relations have embeddings; in the constrained-core view the relation matrix
    is the identity and the core holds the mixing matrices.

    Example: reltucker describe-model runs/mine
    """
    from reltucker.report import Column, Table
    from reltucker.run import open_run

    description = open_run(run).describe()
    kind = ("model", "entity_dim", "relation_dim", "reciprocal")
    rows = [
        {"view": "fixed core", **description},
        {"view": "constrained core", **description["constrained"]},
    ]
    normalised = description["nnfp_normalisation"] > 0
    columns = [
        Column("view", "view"),
        Column("nnfp(G)", "nnfp_core", ",d"),
        Column("nnfp(R)", "nnfp_relations", ",d", spare=1),
        Column("nnfp(E)", "nnfp_entities", ",d", spare=1),
        *([Column("normalisation", "nnfp_normalisation", ",d", spare=2)] if normalised else []),
        Column("d_r*", "effective_relation_size", ",.1f"),
        Column("parameters*", "effective_parameters", ",d"),
        Column("core density", "core_density", ".4%"),
    ]
    lines = [
        ", ".join(f"{key} {description[key]}" for key in keys)
        for keys in (kind, ("entities", "relations"))
    ]
    output.show(json, description, *lines, Table("", columns, rows))
