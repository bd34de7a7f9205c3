"""Adopting an adopter's tables: what keeps from it, what is missing, and making just that.

Nothing of an adopter's is changed but by what is listed: indexes built beside live traffic, two
triggers that empty our own table, and, when they are asked for, guards that refuse new rows.
"""
