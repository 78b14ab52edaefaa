"""A Ray cluster seen from a stage: its jobs, its nodes, its workers, and the fence of a folder.

    fence      the token that says which body may write to a stage's folder
    jobs       a cluster's jobs over its HTTP interface, every question with a time-out
    transfer   the variables that a process on another node gets from the one that asked for it
    pools      the workers of a stage: here, or where its variables say so on any node
    actors     workers on any node, as Ray actors; the only module that steers Ray from inside
    nodes      a cluster of a few nodes on this machine, for tests and laptops

Imports `durable`, `errors`, `records`, `constitution` and `process`; `rollouts`, `stages`,
`executors`, `loop` and `cli` use it. The package ray is imported by `actors` only, when a stage has
workers on other nodes. Requests to the cluster go to the address in the run's config, with the
cluster's token; what stages work with and write stays in the work folder, which all nodes see under
the same path.
"""
