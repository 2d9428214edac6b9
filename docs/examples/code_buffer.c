/* Codes a buffer of 4 data chunks into 2 coding chunks, loses one of each kind, and makes both again. */
#include <stdio.h>
#include <string.h>

#include "ec/ec.h"

enum { K = 4, M = 2, CHUNK_BYTES = 4096 };

static unsigned char stripe[K + M][CHUNK_BYTES];

static int failed(const char* what) {
  fprintf(stderr, "code_buffer: %s: %s\n", what, ec_error_text());
  return 1;
}

static int encode(const ec_codec* codec) {
  ec_source data[K];
  ec_target coding[M];
  for (unsigned i = 0; i < K; ++i) data[i] = (ec_source){stripe[i], EC_PAGEABLE};
  for (unsigned i = 0; i < M; ++i) coding[i] = (ec_target){stripe[K + i], EC_PAGEABLE};
  return ec_encode(codec, 1, data, coding, CHUNK_BYTES);
}

/* Makes data chunk 1 and coding chunk 5 from the others. */
static int decode(const ec_codec* codec) {
  const unsigned available[K] = {0, 2, 3, 4};
  const unsigned wanted[] = {1, 5};
  ec_source sources[K];
  ec_target targets[2];
  for (unsigned i = 0; i < K; ++i) sources[i] = (ec_source){stripe[available[i]], EC_PAGEABLE};
  for (unsigned i = 0; i < 2; ++i) targets[i] = (ec_target){stripe[wanted[i]], EC_PAGEABLE};
  return ec_decode(codec, 1, available, K, sources, wanted, 2, targets, CHUNK_BYTES);
}

int main(void) {
  static unsigned char before[K + M][CHUNK_BYTES];
  ec_codec* codec = NULL;
  int status = 0;

  if (ec_codec_create(K, M, EC_REED_SOL_VAN, &codec) != 0) return failed("create");
  for (unsigned i = 0; i < K; ++i)
    for (unsigned b = 0; b < CHUNK_BYTES; ++b) stripe[i][b] = (unsigned char)(31 * i + b);

  if (encode(codec) != 0) status = failed("encode");
  memcpy(before, stripe, sizeof stripe);
  memset(stripe[1], 0, CHUNK_BYTES);
  memset(stripe[5], 0, CHUNK_BYTES);
  if (status == 0 && decode(codec) != 0) status = failed("decode");
  if (status == 0 && memcmp(before, stripe, sizeof stripe) != 0) {
    fprintf(stderr, "code_buffer: the recovered chunks differ\n");
    status = 1;
  }
  ec_codec_destroy(codec);
  if (status == 0) printf("coded %d+%d, lost chunks 1 and 5, recovered\n", K, M);
  return status;
}
