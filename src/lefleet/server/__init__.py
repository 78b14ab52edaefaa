"""A policy server: many robots share one policy without affecting each other.

A request arrives, waits, is prepared, is computed and is answered in these modules, in this order:

    endpoints      what is declared on the network: observations, handshakes, status, the token
    request_queue  one newest-only mailbox for each robot, and turns among robots
    conversion     between the bytes that travel and the arrays of a policy
    workers        the threads that do the work: some prepare, one infers and publishes

What is around them:

    manifest       what to serve, and how
    handshake      may this robot have a session? (pure)
    session        one robot on this server: pipeline, episode, counters
    sessions       the table of them: opening, replacing, closing
    rates          how often sessions may be opened
    reaper         sessions of robots that went away
    instances      other servers under the same name: refused at start, resolved while running
    service        all of it, from start to drain
    observers      what became of each request, and the audit log
    monitoring     load, metrics, and the pages /healthz, /readyz, /metrics
    capture        the last requests on disk
    replay         captured requests, computed again
    capacity       how many robots this policy can feed

Observations come from `lefleet_client.transport` as bytes and go to `lefleet.policy` as arrays;
chunks go the other way. Nothing is kept on disk but the audit log and the captures. May import
errors, records and policy; only the cli may import it.

Threads: callbacks of the transport only put things into queues; `prepare-*` decode and preprocess;
`inference` owns the device; `reaper` closes abandoned sessions; `instances` looks for servers of
the same name; `audit` and `capture` write; `health` answers HTTP. The main thread waits for
signals.
"""
