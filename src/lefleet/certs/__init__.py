"""A small certificate authority: who may connect to robots, servers and routers, and as whom.

    authority   the folder: issues, renews and revokes, safe against a kill at any point
    registry    every certificate that was issued, and the rules for names
    x509        keys and certificates as PEM
    access      the access list, and what it means to Zenoh
    listener    what a router or server adds to its settings, and when it must reopen

Imports `errors` and `records`, and the client's names and settings; `cli` uses it. Names come from
the user; folders with certificates and access lists go to the machines of robots and servers.
"""
