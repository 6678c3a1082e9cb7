"""`athanor dev`: a development pod whose folder is kept in sync with a local folder."""
