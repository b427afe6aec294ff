// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>

namespace weft::kernels {

/// A non-owning reference to something that runs body(0) ... body(count - 1), in any order and on any threads, and
/// returns when all are done. Kernels split outputs over it, never sums, so its choices cannot change a bit.
/// The provider's threads run inside FlushSubnormals. The referred callable must outlive this object.
/// Made from anything callable as provider(std::size_t count, void (*body)(void*, std::size_t), void* context).
class ParallelFor {
 public:
  using Body = void (*)(void* context, std::size_t index);

  template <class Provider, class = std::enable_if_t<!std::is_same_v<std::remove_cvref_t<Provider>, ParallelFor> &&
                                                     std::is_invocable_v<Provider&, std::size_t, Body, void*>>>
  ParallelFor(Provider&& provider) noexcept
      : provider_(const_cast<void*>(static_cast<const void*>(std::addressof(provider)))),
        call_([](void* p, std::size_t count, Body body, void* context) {
          (*static_cast<std::remove_reference_t<Provider>*>(p))(count, body, context);
        }) {}

  /// Runs f(0) ... f(count - 1).
  template <class F>
  void operator()(std::size_t count, F&& f) const {
    call_(
        provider_, count,
        [](void* context, std::size_t index) { (*static_cast<std::remove_reference_t<F>*>(context))(index); },
        const_cast<void*>(static_cast<const void*>(std::addressof(f))));
  }

 private:
  void* provider_;
  void (*call_)(void*, std::size_t, Body, void*);
};

}  // namespace weft::kernels
