"""A policy server: many robots, one policy, nobody mixed up with anybody.

    manifest   what to serve, and how
    names      what models and services are called when nobody has named them
    handshake  may this robot have a session? (pure)
    session    one robot on this server: mailbox, pipeline, episode, counters
    sessions   the table of them: opening, replacing, closing
    scheduler  whose turn it is
    board      requests on their way: mailboxes, prepared ones, who may go next
    answering  one request to its answer: decode, prepare, predict, finish
    workers    the threads that do it: some prepare, one infers
    load       how busy the device is
    wiring     keys and callbacks: the network's side of all this
    janitor    sessions of robots that went away
    service    all of it, from start to drain
    outcome    what became of a request, for whoever counts or writes it down
    audit, metrics, capture   who does
    background what they write, without holding anybody up
    health     /healthz, /readyz, /metrics
    capacity   how many robots this policy can feed
    replay     captured requests, computed again

Observations come from `lefleet_client.transport` as bytes and go to `lefleet.policy` as arrays;
chunks go the other way. Nothing is kept on disk but the audit log and the capture ring. May import
errors, records and policy; only the cli may import it.

Threads: callbacks of the transport only deposit; `prepare-*` decode and preprocess; `inference`
owns the device; `janitor` closes forgotten sessions; `audit` and `capture` write; `health` answers
HTTP. The main thread waits for signals.
"""
