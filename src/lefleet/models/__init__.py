"""Language models that propose what a cycle should do; every run works without them.

    clamp      any proposal to one within its limits; also for proposals that no model made

Imports `records` and `stages`, and pydantic-ai only while a question is asked. `stages.run` loads
`propose` by name, the loop imports `clamp` and `client`. Evidence comes from the loop inside the
request and goes to the model as data. What a model answers goes into `answers.jsonl` and
`record.json`, and only as far as it is a proposal within the request's limits.
"""
