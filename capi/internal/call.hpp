// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "capi/internal/handles.hpp"
#include "capi/weft.h"

#include "core/result.hpp"

#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>

namespace weft::capi {

/// Makes a failure the thread's last one; gives its code back. Allocates once a thread.
weft_status report(weft_status code, std::string_view text) noexcept;
weft_status report(const Error& error) noexcept;
/// The status of an Errc.
constexpr weft_status status_of(Errc code) noexcept { return static_cast<weft_status>(code) + 1; }

/// The end of a call: a Status, a Failure, or a status that was reported.
class [[nodiscard]] Outcome {
 public:
  Outcome() = default;
  Outcome(const Failure& failure) noexcept : code_(report(failure.error)) {}
  [[gnu::always_inline]] Outcome(const Status& status) noexcept : code_(status ? WEFT_OK : report(status.error())) {}
  Outcome(weft_status reported) noexcept : code_(reported) {}
  weft_status code() const noexcept { return code_; }
  bool is_good() const noexcept { return code_ == WEFT_OK; }

 private:
  weft_status code_ = WEFT_OK;
};

/// Runs the work of a call; no exception leaves it.
template <class Work>
weft_status guarded(Work&& work) noexcept {
  try {
    return Outcome(work()).code();
  } catch (const std::bad_alloc&) {
    return report(WEFT_NO_MEMORY, "no memory");
  } catch (const std::exception& error) {
    return report(WEFT_INTERNAL, error.what());
  } catch (...) {
    return report(WEFT_INTERNAL, "an exception without a text");
  }
}

/// An object for the time of one call.
class Claim {
 public:
  /// `may_be_closed`: an agent's mesh and learner can be destroyed after it was closed, and nothing else.
  Claim(const void* handle, Kind kind, bool may_be_closed = false) noexcept;
  ~Claim() {
    if (flag_) HandleTable::give_back(*flag_);
  }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

  /// WEFT_OK, or what was reported: there is no object then.
  weft_status status() const noexcept { return status_; }
  Object& object() const noexcept { return *slot_->object; }
  /// Takes the object out of the table; what it shares stays claimed as long as this.
  std::unique_ptr<Object> remove() noexcept;

 private:
  HandleTable::Slot* slot_ = nullptr;
  BusyFlag* flag_ = nullptr;           // null: not claimed, or given back
  std::shared_ptr<SharedState> kept_;  // of an object that was taken out
  weft_status status_ = WEFT_OK;
};

/// Work on the object of a handle; `Type` has `Handle`, the name in weft.h, and `kKind`.
template <class Type, class Work>
weft_status with(typename Type::Handle* handle, Work&& work) noexcept {
  const Claim claim(handle, Type::kKind);
  if (claim.status() != WEFT_OK) return claim.status();
  return guarded([&]() -> Outcome { return work(static_cast<Type&>(claim.object())); });
}

template <class Type>
weft_status destroy(typename Type::Handle* handle) noexcept {
  Claim claim(handle, Type::kKind, true);
  if (claim.status() != WEFT_OK) return claim.status();
  return guarded([&]() -> Outcome {
    claim.remove();
    return {};
  });
}

/// A handle for a new object, as the last argument of a call takes it.
template <class Type>
Outcome hand_out(std::unique_ptr<Type> object, typename Type::Handle** out) {
  void* const handle = HandleTable::instance().add(Type::kKind, std::move(object));
  if (!handle) return report(WEFT_FULL, "too many handles: 2^20 are not destroyed");
  *out = static_cast<typename Type::Handle*>(handle);
  return {};
}

}  // namespace weft::capi
