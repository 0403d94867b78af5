-- What was on in an attempt's world: how its child came to be, what ends its tree, shield, network, limits.
ALTER TABLE laneway_receipts ADD COLUMN world TEXT;
