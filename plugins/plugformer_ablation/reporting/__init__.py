"""How findings are told: sentences, tables, a page and figures."""
