// Lets allocations of a thread fail, in a program that links failing_memory.cpp, which stands in front of the
// C library's allocator. Not for builds with sanitizers, which stand there themselves.
#pragma once

namespace ec::test {

/// From now on the nth allocation of this thread (1: the next) fails, and every one after it too if `all`.
/// Everybody's count: operator new, what the C library allocates for itself, exceptions.
void begin_shortage(unsigned nth, bool all);

/// Ends it. How many allocations failed.
unsigned end_shortage();

/// Between begin and end, which nest, this thread's allocations neither count nor fail: those of a driver,
/// say.
void spare_allocations(bool begin);

}  // namespace ec::test
