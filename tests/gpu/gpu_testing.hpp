// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "gpu/device.hpp"
#include "gpu/memory.hpp"
#include "gpu/vulkan_stream.hpp"

#include "kernels/cpu_stream.hpp"
#include "kernels/float_environment.hpp"
#include "kernels/isa.hpp"

#include "core/philox.hpp"

#include <gtest/gtest.h>

#include "tests/gpu/leak_suppressions.hpp"
#include "tests/kernels/comparing.hpp"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

/// Fixtures of the GPU tests: one device for the program (WEFT_TEST_DEVICE names another than the first), and
/// operations run on the CPU's scalar path and on the device from the same bytes.
namespace weft::gpu::testing_support {

using kernels::ConstMatrixView;
using kernels::ConstWeight;
using kernels::MatrixView;
using kernels::OpStream;
using kernels::Panels;
using kernels::testing_support::same_bits;

inline std::string selector() {
  const char* named = std::getenv("WEFT_TEST_DEVICE");
  return named ? named : "vulkan";
}

inline bool is_device_open = false;

/// The program's device. Without any Vulkan device, and none asked for, the program ends as skipped (77).
inline Device& device() {
  const auto open = [] {
    DeviceOptions options;
    options.validate = std::getenv("WEFT_TEST_NO_VALIDATION") == nullptr;
    options.cache_folder = "-";
    auto result = Device::open(selector(), options);
    if (!result) {
      std::fprintf(stderr, "%s\n", result.error().text().c_str());
      const auto all = devices();
      const bool is_absent = !std::getenv("WEFT_TEST_DEVICE") && (!all || all->empty());
      std::exit(is_absent ? 77 : 1);
    }
    // tools/setup.sh gpu installs the layers with the driver: where they are lost, tests would see less and say
    // nothing.
    if (std::getenv("CI") && options.validate && !(*result)->validates()) {
      std::fprintf(stderr, "CI is set, and the validation layers are not there: tools/setup.sh gpu installs them\n");
      std::exit(1);
    }
    is_device_open = true;
    const SelfTest& proof = (*result)->self_test();
    std::fprintf(stderr, "device: %s, %s; shaders: %s; validation: %s\n", (*result)->info().name.c_str(),
                 (*result)->info().driver.c_str(), proof.variant.c_str(), (*result)->validates() ? "on" : "off");
    return std::move(*result);
  };
#ifdef WEFT_SANITIZED
  // Never closed: the validation layer loses memory of its own, which the leak checker cannot name once it is unloaded.
  static const auto* const opened = new std::shared_ptr<Device>(open());
  return **opened;
#else
  static const std::shared_ptr<Device> opened = open();
  return *opened;
#endif
}

/// Of what the validation layers find; what a plan of faults had them say is asked for. Tests that open no device are
/// none of its business.
class EachTestIsValid : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo&) override {
    if (!is_device_open) return;
    const auto errors = device().validation_errors();
    for (; seen_ < errors.size(); ++seen_)
      if (errors[seen_].find("a plan of faults asked for") == std::string::npos)
        ADD_FAILURE() << "validation layer: " << errors[seen_];
  }
  std::size_t seen_ = 0;
};
inline const bool kListens = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new EachTestIsValid);
  return true;
}();

/// Bytes that lie on the CPU and on the device, and come back to be compared.
class Operand {
 public:
  explicit Operand(std::vector<float> values) : initial_(std::move(values)), cpu_(initial_) {}
  Operand(const kernels::testing_support::Matrix& m) {
    const ConstMatrixView view = m.view();
    rows_ = view.rows, cols_ = view.cols, stride_ = view.stride;
    initial_.assign(view.data, view.data + (view.rows == 0 ? 0 : (view.rows - 1) * view.stride + view.cols));
    cpu_ = initial_;
  }
  std::size_t rows() const { return rows_; }

 private:
  friend class Comparison;
  template <class T>
  friend class View;
  std::vector<float> initial_, cpu_;
  bool is_codes_ = false;  // no numbers: a NaN's bits count too
  std::size_t rows_ = 0, cols_ = 0, stride_ = 0;
  Buffer device_;
};

/// The operands of one operation: `run(stream, at)` is called for the CPU and for the device, `at` giving the pointers
/// of each, there recorded and as a program. Whatever an operand holds afterwards, sentinels between rows too, must be
/// the same bits.
class Comparison {
 public:
  std::size_t add(const kernels::testing_support::Matrix& m) { return take(Operand(m)); }
  std::size_t add(std::vector<float> values) { return take(Operand(std::move(values))); }

  /// Bytes that only look like floats: all of their bits count.
  std::size_t add_codes(std::vector<float> words) {
    const std::size_t i = add(std::move(words));
    all_[i].is_codes_ = true;
    return i;
  }

  class At {
   public:
    MatrixView rows(std::size_t i) const { return {data(i), all_[i].rows_, all_[i].cols_, all_[i].stride_}; }
    float* data(std::size_t i) const { return is_cpu_ ? all_[i].cpu_.data() : all_[i].device_.data(); }
    template <class T>
    T* as(std::size_t i) const {
      return reinterpret_cast<T*>(data(i));
    }

   private:
    friend class Comparison;
    At(std::vector<Operand>& all, bool is_cpu) : all_(all), is_cpu_(is_cpu) {}
    std::vector<Operand>& all_;
    bool is_cpu_;
  };

  /// `programs` false: recorded only, where compiling for both would take too long.
  template <class Run>
  void expect_same(const std::string& what, const Run& run, bool programs = true) {
    run_on_cpu(run);
    for (const bool as_program : {false, true}) {
      if (as_program && !programs) return;
      expect_same_on_device(what + (as_program ? ", as a program" : ""), as_program, run);
      if (testing::Test::HasFatalFailure()) return;
    }
  }

 private:
  template <class Run>
  void expect_same_on_device(const std::string& what, bool as_program, const Run& run) {
    auto stream = device().make_stream();
    ASSERT_TRUE(stream) << stream.error().text();
    for (Operand& each : all_) {
      auto buffer = device().memory().allocate(each.initial_.size() * sizeof(float), "an operand");
      ASSERT_TRUE(buffer) << buffer.error().text();
      each.device_ = std::move(*buffer);
      (*stream)->upload(each.initial_.data(), each.initial_.size() * sizeof(float), each.device_.data());
    }
    if (as_program) {
      ASSERT_TRUE((*stream)->begin_program());
      run(**stream, At(all_, false));
      const auto program = (*stream)->end_program();
      ASSERT_TRUE(program) << what << ": " << program.error().text();
      ASSERT_TRUE((*stream)->run(*program));
    } else {
      run(**stream, At(all_, false));
    }
    for (std::size_t i = 0; i < all_.size(); ++i) {
      Operand& each = all_[i];
      std::vector<float> got(each.initial_.size());
      const Status status = (*stream)->download(each.device_.data(), got.size() * sizeof(float), got.data());
      ASSERT_TRUE(status) << what << ": " << status.error().text();
      for (std::size_t j = 0; j < got.size(); ++j)
        ASSERT_TRUE(each.is_codes_ ? std::memcmp(&got[j], &each.cpu_[j], sizeof got[j]) == 0
                                   : same_bits(got[j], each.cpu_[j]))
            << what << ": operand " << i << ", element " << j << ": " << got[j] << " against the CPU's " << each.cpu_[j]
            << std::hexfloat << " (" << got[j] << ", " << each.cpu_[j] << ", before " << each.initial_[j] << ")";
    }
  }

  std::size_t take(Operand operand) {
    all_.push_back(std::move(operand));
    return all_.size() - 1;
  }
  template <class Run>
  void run_on_cpu(const Run& run) {
    const kernels::FlushSubnormals flush;
    const kernels::Isa before = kernels::active_isa();
    ASSERT_TRUE(kernels::set_active_isa(kernels::Isa::scalar));
    kernels::CpuStream cpu;
    run(cpu, At(all_, true));
    ASSERT_TRUE(kernels::set_active_isa(before));
  }
  std::vector<Operand> all_;
};

inline std::vector<float> values_of(const kernels::testing_support::Matrix& m) { return m.values(); }

/// `n` floats: normal numbers, every fourth a special value where `special`.
inline std::vector<float> draw(RandomStream& random, std::size_t n, bool special) {
  if (n == 0) return {};
  const auto m = special ? kernels::testing_support::special_matrix(random, 1, n)
                         : kernels::testing_support::random_matrix(random, 1, n);
  return m.values();
}
inline kernels::testing_support::Matrix draw_matrix(RandomStream& random, std::size_t rows, std::size_t cols,
                                                    bool special) {
  return special ? kernels::testing_support::special_matrix(random, rows, cols)
                 : kernels::testing_support::random_matrix(random, rows, cols);
}

/// A float32 weight [out, in] in panels, padding +0.
inline std::vector<float> draw_panels(RandomStream& random, std::size_t out, std::size_t in, bool special) {
  const std::vector<float> rows = draw(random, out * in, special);
  std::vector<float> panels(kernels::panels_size(out, in));
  for (std::size_t o = 0; o < out; ++o)
    for (std::size_t k = 0; k < in; ++k) panels[kernels::panel_index(in, o, k)] = rows[o * in + k];
  return panels;
}

}  // namespace weft::gpu::testing_support
