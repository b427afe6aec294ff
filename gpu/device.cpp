// SPDX-License-Identifier: Apache-2.0

#include "gpu/device.hpp"

#include "gpu/internal/context.hpp"
#include "gpu/internal/fma_peak.hpp"
#include "gpu/internal/heap.hpp"
#include "gpu/internal/pipelines.hpp"
#include "gpu/internal/self_test.hpp"
#include "gpu/internal/stream.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace weft::gpu {
namespace {

class VulkanDevice final : public Device {
 public:
  VulkanDevice(std::shared_ptr<Context> context, std::unique_ptr<Heap> heap, std::unique_ptr<Pipelines> pipelines,
               const SelfTest& report, std::size_t errors_before)
      : context_(std::move(context)),
        heap_(std::move(heap)),
        pipelines_(std::move(pipelines)),
        report_(report),
        errors_before_(errors_before) {}
  const DeviceInfo& info() const noexcept override { return context_->info; }
  const SelfTest& self_test() const noexcept override { return report_; }
  Memory& memory() noexcept override { return *heap_; }
  Result<std::unique_ptr<VulkanStream>> make_stream() override {
    WEFT_CHECK(context_->lost());
    WEFT_TRY(auto recorder, Recorder::create(context_, *heap_, *pipelines_));
    return std::unique_ptr<VulkanStream>(std::make_unique<Stream>(std::move(recorder)));
  }
  Result<double> fma_peak() override { return gpu::fma_peak(context_, *heap_, *pipelines_); }
  const DeviceOptions& options() const noexcept override { return context_->options; }
  bool is_lost() const noexcept override { return context_->is_lost(); }
  std::vector<std::string> validation_errors() const override { return context_->instance->errors(errors_before_); }
  bool validates() const noexcept override { return context_->instance->validates(); }

 private:
  std::shared_ptr<Context> context_;
  std::unique_ptr<Heap> heap_;
  std::unique_ptr<Pipelines> pipelines_;
  SelfTest report_;
  std::size_t errors_before_;  // it was opened
};

std::string lower(std::string_view text) {
  std::string to(text);
  for (char& c : to) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return to;
}

/// Real devices before those made of CPU, as the driver lists them otherwise.
int rank(const DeviceInfo& info) {
  const std::array order = {"discrete", "integrated", "virtual", "other", "cpu"};
  return static_cast<int>(std::find(order.begin(), order.end(), info.kind) - order.begin());
}

std::string listing(const std::vector<DeviceInfo>& all) {
  std::string text;
  for (const DeviceInfo& info : all)
    text += (text.empty() ? "" : ", ") + std::string("vulkan:") + std::to_string(info.index) + " " + info.name +
            (info.missing.empty() ? "" : " (unusable: lacks " + info.missing + ")");
  return text.empty() ? "none" : text;
}

Result<std::size_t> choose(std::string_view selector, const std::vector<DeviceInfo>& all) {
  const std::string_view wanted = selector.size() > 7 ? selector.substr(7) : "";
  if (selector.substr(0, 6) != "vulkan" || (selector.size() > 6 && (selector[6] != ':' || wanted.empty())))
    return fail(Errc::unknown_name,
                "device '" + std::string(selector) + "': expected vulkan, vulkan:NUMBER or vulkan:PART-OF-A-NAME");
  std::size_t number = all.size();
  const auto [end, error] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), number);
  const bool is_number = !wanted.empty() && error == std::errc() && end == wanted.data() + wanted.size();
  const DeviceInfo* best = nullptr;
  for (const DeviceInfo& info : all) {
    const bool fits = wanted.empty() ? info.missing.empty()
                      : is_number    ? info.index == number
                                     : lower(info.name).find(lower(wanted)) != std::string::npos;
    if (fits && (!best || rank(info) < rank(*best))) best = &info;
  }
  if (!best)
    // A request for any device is no mistake when none is usable.
    return fail(all.empty() || wanted.empty() ? Errc::unsupported : Errc::unknown_name,
                "device '" + std::string(selector) + "': no such device; there are: " + listing(all));
  if (!best->missing.empty())
    return fail(Errc::unsupported, "device '" + std::string(selector) + "': " + best->name + " lacks " + best->missing);
  return best->index;
}

Result<std::vector<DeviceInfo>> describe_all(const std::vector<VkPhysicalDevice>& physical) {
  WEFT_TRY(const Limits most, limits_of_environment());
  std::vector<DeviceInfo> all;
  for (const VkPhysicalDevice each : physical) all.push_back(describe(each, all.size(), most));
  return all;
}

}  // namespace

Result<std::vector<DeviceInfo>> devices() {
  WEFT_TRY(const auto instance, Instance::get(false));
  WEFT_TRY(const auto physical, physical_devices(*instance));
  return describe_all(physical);
}

Result<std::shared_ptr<Device>> Device::open(std::string_view selector, const DeviceOptions& options) {
  WEFT_TRY(const auto instance, Instance::get(options.validate, options.faults.get()));
  WEFT_TRY(const auto physical, physical_devices(*instance));
  WEFT_TRY(std::vector<DeviceInfo> all, describe_all(physical));
  for (DeviceInfo& each : all)
    if (each.missing.empty() && options.faults && options.faults->strikes(DriverFault::no_feature))
      each.missing = "64-bit integers in shaders";
  WEFT_TRY(const std::size_t index, choose(selector, all));
  DeviceInfo info = all[index];
  info.dot_product = info.dot_product && !options.without_dot_products;
  info.matrix_units = info.matrix_units && !options.without_matrix_units;
  info.conditional_dispatches = info.conditional_dispatches && !options.without_conditional_dispatches;
  const std::size_t errors_before = instance->error_count();
  WEFT_TRY(auto context, Context::create(instance, physical[index], info, options));
  auto heap = std::make_unique<Heap>(context);
  WEFT_TRY(const SelfTest report, prove(context, *heap, options.cache_folder));
  WEFT_TRY(auto pipelines, Pipelines::create(context, options.cache_folder));
  if (info.matrix_units) {
    WEFT_TRY(context->info.regular_matrices, matrices_are_regular(context, *heap, *pipelines));
  }
  return std::shared_ptr<Device>(
      std::make_shared<VulkanDevice>(std::move(context), std::move(heap), std::move(pipelines), report, errors_before));
}

}  // namespace weft::gpu
