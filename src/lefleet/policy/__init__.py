"""A LeRobot checkpoint as something that can be asked for chunks, by many robots, without a network.

    request   what a policy is asked, as numpy arrays
    families  which policies may be shared by robots, and why others may not
    settings  which checkpoint, on which device
    load      a checkpoint's files to a policy, with LeRobot's own factory
    contract  what every column means, and how that is known
    pipeline  one robot's own pre- and postprocessors
    served    the loaded policy: pipelines for robots, chunks for requests
    warmup    the first chunks, and the proof that requests do not touch each other

Requests come from `server` (decoded observations) and from captures; chunks go back there. This is
the only folder besides `rollouts` that runs policies. May import errors, records and stages
(digests, names of checkpoints). Server and cli may import it.

Threads: `Pipeline.prepare` may run on any thread, but between `prepare` and `finish` a pipeline
belongs to one request. `ServedPolicy.predict` belongs to one thread, which owns the device.
"""
