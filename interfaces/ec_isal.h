/* What libec_isal.so says to our own back end `isal`, which looks for it by its name in the process: the
 * functions of the real ISA-L behind it. That back end judges our kernels, and so must not be them. */
#ifndef EC_ISAL_H
#define EC_ISAL_H

#ifdef __cplusplus
extern "C" {
#endif

/* As in isa-l/erasure_code.h. Tables of init_tables are for these alone. */
struct ec_isal_functions {
  void (*init_tables)(int k, int rows, unsigned char* matrix, unsigned char* tables);
  void (*encode)(int bytes, int k, int rows, unsigned char* tables, unsigned char** sources,
                 unsigned char** targets);
  void (*update)(int bytes, int k, int rows, int column, unsigned char* tables, unsigned char* source,
                 unsigned char** targets);
};

/* ec_isal_real: never null. Thread safe; they live as long as the process. */
typedef const struct ec_isal_functions* ec_isal_real_function(void);

#ifdef __cplusplus
}
#endif

#endif
