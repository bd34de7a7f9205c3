"""Every statement of the product, each SELECT with its lock.

Lock order, always (S6):

appointment, slot, event, reminders. `FOR NO KEY UPDATE` throughout: it lets a child row's insert
pass (which takes `FOR KEY SHARE` on its parent) and stops everything that would change the row.
"""
