"""Rows become batches, and batches carry the resume point that holds after them (CONTRACTS K3, K4).

compute half --row--> shape --cells--> cutter --batch, in time and within limits--> outbox --credit--> line
                                         |                                            |
                                       replay: rows that landed already             trail: the resume point
"""
