/* The exports of the shared library. For C and C++; only the other headers here include it. */
#ifndef ECCODER_EXPORT_H
#define ECCODER_EXPORT_H

#define ECCODER_EXPORT __attribute__((visibility("default")))

#endif
