"""The component keeps the contract of its kind: one test for each check.

Compare it with its formula too, or with an independent implementation: no general test knows what it should
compute. Options that have no default are given as `contract_tests("...", options={"files": ...})`, and other
values of options are worth a test of their own.
"""

from plugformer_testing import contract_tests

test_contract = contract_tests("new_kind/new_component")
