// SPDX-License-Identifier: Apache-2.0

#include "cli/doctor_gpu.hpp"

#include "cli/text_format.hpp"

#include "gpu/device.hpp"

#include "core/json.hpp"

#include <cstdio>
#include <string>

namespace weft::cli {
namespace {

Json self_test_json(const gpu::DeviceInfo& info) {
  const auto device = gpu::Device::open("vulkan:" + std::to_string(info.index));
  if (!device) return {{"exact", false}, {"problem", device.error().text()}};
  const gpu::SelfTest& proof = (*device)->self_test();
  return {{"exact", true},
          {"shaders", proof.variant},
          {"cases", proof.cases},
          {"milliseconds", proof.milliseconds},
          {"hardware",
           {{"fma_is_fused", proof.fma_is_fused},
            {"flushes_subnormals", proof.flushes},
            {"fma_differs", proof.fma_differs},
            {"division_differs", proof.division_differs},
            {"root_differs", proof.root_differs},
            {"tiny_after_rounding", proof.tiny_after_rounding}}}};
}

Json device_json(const gpu::DeviceInfo& info) {
  return {{"selector", "vulkan:" + std::to_string(info.index)},
          {"name", info.name},
          {"kind", info.kind},
          {"driver", info.driver},
          {"vulkan", info.api},
          {"missing", info.missing.empty() ? Json() : Json(info.missing)},
          {"limits",
           {{"memory_bytes", info.memory_bytes},
            {"allocation_bytes", info.max_allocation_bytes},
            {"buffer_bytes", info.max_buffer_bytes},
            {"storage_range", info.max_storage_range},
            {"groups", info.max_groups},
            {"group_threads", info.max_group_threads},
            {"shared_bytes", info.shared_bytes},
            {"push_bytes", info.push_bytes},
            {"subgroup", info.subgroup}}},
          {"features",
           {{"float64", info.float64},
            {"float16", info.float16},
            {"int16", info.int16},
            {"int8", info.int8},
            {"dot_product", info.dot_product},
            {"matrix_units", info.matrix_units},
            {"conditional_dispatches", info.conditional_dispatches},
            {"memory_budget", info.memory_budget},
            {"flush_control", info.flush_control},
            {"special_values_control", info.special_values_control}}},
          {"self_test", info.missing.empty() ? self_test_json(info) : Json()}};
}

void print_device(const Json& device) {
  const auto text = [](const Json& value) { return value.get<std::string>(); };
  const Json &limits = device["limits"], &proof = device["self_test"];
  std::printf("%-12s %s (%s, Vulkan %s, %s)\n", text(device["selector"]).c_str(), text(device["name"]).c_str(),
              text(device["kind"]).c_str(), text(device["vulkan"]).c_str(), text(device["driver"]).c_str());
  std::printf("             %s of memory, at most %s at once; groups of %s threads, %s shared\n",
              byte_size(limits["memory_bytes"]).c_str(), byte_size(limits["allocation_bytes"]).c_str(),
              limits["group_threads"].dump().c_str(), byte_size(limits["shared_bytes"]).c_str());
  std::string features;
  for (const auto& [name, there] : device["features"].members())
    if (there == true) features += " " + name;
  std::printf("             features:%s\n", features.c_str());
  if (!device["missing"].is_null()) {
    std::printf("             not usable: lacks %s\n", text(device["missing"]).c_str());
  } else if (proof["exact"] == false) {
    std::printf("             not usable: %s\n", text(proof["problem"]).c_str());
  } else {
    const Json& own = proof["hardware"];
    std::printf("             exact: %s results as the CPU's; shaders: %s\n", proof["cases"].dump().c_str(),
                text(proof["shaders"]).c_str());
    std::printf(
        "             its own fma %s, subnormals %s, division differs in %.1f %%, root in %.1f %%, tiny is judged "
        "%s rounding\n",
        own["fma_is_fused"] == true ? "is fused" : "rounds twice",
        own["flushes_subnormals"] == true ? "flushed" : "kept", 100 * own["division_differs"].get<double>(),
        100 * own["root_differs"].get<double>(), own["tiny_after_rounding"] == true ? "after" : "before");
  }
}

}  // namespace

Json gpu_json() {
  const auto all = gpu::devices();
  if (!all) return {{"devices", Json::array()}, {"problem", all.error().text()}};
  Json list = Json::array();
  for (const gpu::DeviceInfo& info : *all) list.push_back(device_json(info));
  return {{"devices", list}, {"problem", all->empty() ? Json("vulkan: no device, no driver for one") : Json()}};
}

void print_gpu(const Json& gpu) {
  if (!gpu["problem"].is_null()) std::printf("GPU          none: %s\n", gpu["problem"].get<std::string>().c_str());
  for (const Json& device : gpu["devices"]) print_device(device);
}

}  // namespace weft::cli
