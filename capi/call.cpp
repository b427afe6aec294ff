// SPDX-License-Identifier: Apache-2.0

#include "capi/internal/call.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <utility>

namespace weft::capi {
namespace {

struct ThreadError {
  weft_error error{sizeof(weft_error), WEFT_OK, "ok", ""};
  std::array<char, 4096> text{};
};
/// Not the text itself: a library that is loaded late has some 500 bytes of a thread's memory (glibc's surplus of
/// static TLS, which kernels/isa.hpp wants).
thread_local ThreadError* own_error = nullptr;
thread_local bool is_ending = false;

struct Cleaner {
  ~Cleaner() {
    is_ending = true;
    delete std::exchange(own_error, nullptr);
  }
};

/// Null where there is no memory, and at a thread's very end.
ThreadError* thread_error() noexcept {
  if (own_error || is_ending) return own_error;
  own_error = new (std::nothrow) ThreadError;
  static thread_local Cleaner cleaner;
  return own_error;
}

constexpr weft_error kNoError{sizeof(weft_error), WEFT_OK, "ok", ""};
constexpr weft_error kNoMemory{sizeof(weft_error), WEFT_NO_MEMORY, "no_memory", "no memory for the text of an error"};
thread_local bool has_no_memory = false;

struct Row {
  weft_status status;
  Errc code;
};
constexpr std::array kRows{
    Row{WEFT_INTERNAL, Errc::internal},
    Row{WEFT_INVALID_ARGUMENT, Errc::invalid_argument},
    Row{WEFT_SHAPE_MISMATCH, Errc::shape_mismatch},
    Row{WEFT_OUT_OF_RANGE, Errc::out_of_range},
    Row{WEFT_PARSE_FAILED, Errc::parse_failed},
    Row{WEFT_UNKNOWN_NAME, Errc::unknown_name},
    Row{WEFT_DUPLICATE_NAME, Errc::duplicate_name},
    Row{WEFT_TOO_LARGE, Errc::too_large},
    Row{WEFT_CORRUPT, Errc::corrupt},
    Row{WEFT_UNSUPPORTED, Errc::unsupported},
    Row{WEFT_NOT_FOUND, Errc::not_found},
    Row{WEFT_STORAGE, Errc::storage},
    Row{WEFT_FULL, Errc::full},
    Row{WEFT_TIMED_OUT, Errc::timed_out},
    Row{WEFT_NOT_FINITE, Errc::not_finite},
    Row{WEFT_HALTED, Errc::halted},
    Row{WEFT_INTERRUPTED, Errc::interrupted},
    Row{WEFT_DIFFERS, Errc::differs},
};
constexpr std::size_t kErrorCount = 0
#define WEFT_ERROR(name, exit_code, meaning) +1
#include "core/errors.def"
#undef WEFT_ERROR
    ;
static_assert(kRows.size() == kErrorCount, "a row of core/errors.def is not in weft.h");
static_assert(std::all_of(kRows.begin(), kRows.end(), [](const Row& row) { return row.status == status_of(row.code); }),
              "weft.h numbers an error other than core/errors.def");

const char* name_of(weft_status status) noexcept {
  switch (status) {
    case WEFT_OK:
      return "ok";
    case WEFT_BAD_HANDLE:
      return "bad_handle";
    case WEFT_BUSY:
      return "busy";
    case WEFT_TOO_SMALL:
      return "too_small";
    case WEFT_NO_MEMORY:
      return "no_memory";
    default:
      // Names are literals, which end with 0.
      return status > 0 && status <= static_cast<weft_status>(kErrorCount) ? name(static_cast<Errc>(status - 1)).data()
                                                                           : "unknown";
  }
}

// Cold, so that a call which is not refused saves no registers for it.
[[gnu::cold, gnu::noinline]] weft_status refused(HandleTable::Claimed how, const void* handle, Kind kind) noexcept {
  std::array<char, 96> text{};
  std::size_t size = 0;
  const auto add = [&](std::string_view part) {
    part = part.substr(0, text.size() - size);
    std::copy(part.begin(), part.end(), text.begin() + size);
    size += part.size();
  };
  add(name(kind));
  const Kind found = HandleTable::kind_of(handle);
  switch (how) {
    case HandleTable::Claimed::null:
      add(": NULL");
      break;
    case HandleTable::Claimed::busy:
      add(": another call is in it");
      return report(WEFT_BUSY, {text.data(), size});
    case HandleTable::Claimed::other_kind:
      add(found == Kind::none ? ": no handle of Weft's" : ": the handle is of kind ");
      if (found != Kind::none) add(name(found));
      break;
    default:
      add(": the handle was destroyed, or never made");
  }
  return report(WEFT_BAD_HANDLE, {text.data(), size});
}

[[gnu::cold, gnu::noinline]] weft_status refused_as_closed() noexcept {
  return report(WEFT_BAD_HANDLE, "the agent that it is of was closed");
}

}  // namespace

weft_status report(weft_status code, std::string_view text) noexcept {
  ThreadError* const place = thread_error();
  has_no_memory = !place;
  if (!place) return code;
  ThreadError& to = *place;
  constexpr std::string_view kCut = "...";
  std::size_t size = std::min(text.size(), to.text.size() - 1);
  if (size < text.size()) {
    size -= kCut.size();
    while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;  // no half of a character
  }
  if (size > 0) std::memmove(to.text.data(), text.data(), size);
  if (size < text.size()) {
    std::copy(kCut.begin(), kCut.end(), to.text.begin() + size);
    size += kCut.size();
  }
  to.text[size] = 0;
  to.error = {sizeof(weft_error), code, name_of(code), to.text.data()};
  return code;
}

weft_status report(const Error& error) noexcept { return report(status_of(error.code()), error.text()); }

Claim::Claim(const void* handle, Kind kind, bool may_be_closed) noexcept {
  const auto how = HandleTable::instance().claim(handle, kind, slot_, flag_);
  if (how != HandleTable::Claimed::yes) {
    flag_ = nullptr;
    status_ = refused(how, handle, kind);
    return;
  }
  const SharedState* const shared = object().shared.get();
  if (shared && shared->is_closed && !may_be_closed) status_ = refused_as_closed();
}

std::unique_ptr<Object> Claim::remove() noexcept {
  kept_ = object().shared;
  if (!kept_) flag_ = nullptr;
  return HandleTable::instance().remove(*slot_);
}

}  // namespace weft::capi

using namespace weft::capi;

const weft_error* weft_last_error(void) {
  if (has_no_memory) return &kNoMemory;
  return own_error ? &own_error->error : &kNoError;
}
const char* weft_status_name(weft_status status) { return name_of(status); }
const char* weft_version(void) { return WEFT_VERSION; }
