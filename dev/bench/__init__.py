"""Bench: how near the product is to what the servers can do at all, as ratios.

A figure divides two things that were measured side by side in the same run, since machines differ.
`stage` has the servers, `rounds` measures in turns, `worker` is a process of the product, `limits`
and `by_hand` are what it is compared with; `catalogue` holds the figures.
"""
