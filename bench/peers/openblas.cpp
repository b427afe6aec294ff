// SPDX-License-Identifier: Apache-2.0

#include "bench/peers/blas.hpp"

#ifdef WEFT_HAVE_OPENBLAS
#include <cblas.h>

extern "C" {
void openblas_set_num_threads(int);
char* openblas_get_corename(void);
}

namespace weft::bench {

bool has_openblas() noexcept { return true; }
std::string openblas_core() { return openblas_get_corename(); }

void openblas_linear(std::size_t batch, std::size_t out, std::size_t in, const float* w, const float* x, float* y) {
  [[maybe_unused]] static const bool single = (openblas_set_num_threads(1), true);
  const int b = static_cast<int>(batch), m = static_cast<int>(out), k = static_cast<int>(in);
  if (batch == 1)
    cblas_sgemv(CblasRowMajor, CblasNoTrans, m, k, 1.0f, w, k, x, 1, 0.0f, y, 1);
  else
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, b, m, k, 1.0f, x, k, w, k, 0.0f, y, m);
}

}  // namespace weft::bench
#else
namespace weft::bench {
bool has_openblas() noexcept { return false; }
std::string openblas_core() { return "absent"; }
void openblas_linear(std::size_t, std::size_t, std::size_t, const float*, const float*, float*) {}
}  // namespace weft::bench
#endif
