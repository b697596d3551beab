"""The simulator's inner loop, compiled by numba: Algorithm 3.1 on arrays.

`state` holds the arrays, `layout` and `rows` fill them, `heaps` and `tournament` keep order,
`sharing` and `fabric` divide resources, `dispatch` starts and completes operations, `loop` is the
algorithm.
"""
