"""What a person may do, from a command or a page: with who did it, and the same rules for both.

    people    who a person is: the system user, or the name of a token
    answers   say yes or no to what a run waits for, and let it continue
    runs      start, stop and resume runs
    films     ask for the films of a pair
    labels    say how a recorded episode ended, in the dataset and in the ledger
    pages     edit a knowledge page

Everything is checked here or below, so that a page can do nothing that a command cannot. Writes
through `ledger`, `loop`, `recording` and `knowledge`; `dash` and `cli` import it.
"""
