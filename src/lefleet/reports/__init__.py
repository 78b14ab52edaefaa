"""`lefleet report`: one HTML file about a run that can be sent to a colleague.

    report    the file: head, contents, sections, foot; written all or not at all
    summary   what is said first: state, verdict, key figures, what a person has to do
    cycles    success over cycles, the table of cycles, tasks as a heat map
    gates     each gate: verdict, evidence, who answered, films of its pairs
    origins   training, lineage, budgets, people, configuration, versions and seeds
    films     which films are put in, as data in the file
    charts    success, evidence and training as SVG
    html      elements with every text escaped

Reads through `queries` and writes one file; the file has no script and asks for nothing elsewhere.
Every text in it may come from anybody, so only `html` makes markup. `cli` imports it.
"""
