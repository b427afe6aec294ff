// SPDX-License-Identifier: Apache-2.0

#include "bench/peers/blas.hpp"

#ifdef WEFT_HAVE_DNNL
#include <dlfcn.h>
#include <dnnl.hpp>

namespace weft::bench {
namespace {

// Debian's oneDNN runs on OpenMP; the process already holds libgomp then, and we need not link it ourselves.
void use_one_thread() {
  if (auto* set = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"))) set(1);
}

using dnnl::memory;

memory::desc plain(memory::dim rows, memory::dim cols) {
  return {{rows, cols}, memory::data_type::f32, memory::format_tag::ab};
}

}  // namespace

bool has_onednn() noexcept { return true; }

struct OnednnLinear::Prepared {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  dnnl::inner_product_forward product;
  memory x, w, y;
};

OnednnLinear::OnednnLinear(std::size_t batch, std::size_t out, std::size_t in, const float* w, const float* x,
                           float* y) {
  use_one_thread();
  const auto b = static_cast<memory::dim>(batch), o = static_cast<memory::dim>(out), i = static_cast<memory::dim>(in);
  prepared_ = std::make_unique<Prepared>();
  auto& p = *prepared_;
  const memory::desc any{{o, i}, memory::data_type::f32, memory::format_tag::any};
  const dnnl::inner_product_forward::desc desc(dnnl::prop_kind::forward_inference, plain(b, i), any, plain(b, o));
  const dnnl::inner_product_forward::primitive_desc chosen(desc, p.engine);
  p.x = memory(plain(b, i), p.engine, const_cast<float*>(x));
  p.y = memory(plain(b, o), p.engine, y);
  memory rows(plain(o, i), p.engine, const_cast<float*>(w));
  p.w = memory(chosen.weights_desc(), p.engine);
  dnnl::reorder(rows, p.w).execute(p.stream, rows, p.w);
  p.stream.wait();
  p.product = dnnl::inner_product_forward(chosen);
}

OnednnLinear::~OnednnLinear() = default;

void OnednnLinear::run() {
  auto& p = *prepared_;
  p.product.execute(p.stream, {{DNNL_ARG_SRC, p.x}, {DNNL_ARG_WEIGHTS, p.w}, {DNNL_ARG_DST, p.y}});
  p.stream.wait();
}

}  // namespace weft::bench
#else
namespace weft::bench {
bool has_onednn() noexcept { return false; }
struct OnednnLinear::Prepared {};
OnednnLinear::OnednnLinear(std::size_t, std::size_t, std::size_t, const float*, const float*, float*) {}
OnednnLinear::~OnednnLinear() = default;
void OnednnLinear::run() {}
}  // namespace weft::bench
#endif
