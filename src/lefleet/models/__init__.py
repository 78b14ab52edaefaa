"""Language models that propose what a cycle should do; every run works without them.

    clamp      any proposal to one within its limits; also for proposals that no model made
    client     a model's name, one typed question, the one way in which it can fail
    exchange   the conversation behind a question; the only module that imports pydantic-ai
    traffic    what goes over the wire: bounded, without content in errors, its tokens estimated
    traces     OpenTelemetry spans of the questions, where an exporter is configured
    curation   the three questions: propose, score, refine; answers to proposals
    propose    the stage: a request's evidence in, a record with a proposal within limits out

Imports `records` and `stages`, and pydantic-ai only while a question is asked. `stages.run` loads
`propose` by name, the loop imports `clamp` and `client`. Evidence comes from the loop inside the
request and goes to the model as data. What a model answers goes into `answers.jsonl` and
`record.json`, and only as far as it is a proposal within the request's limits.
"""
