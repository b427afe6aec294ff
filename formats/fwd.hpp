// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace weft::formats {
class CsvReader;
class EntityFile;
class GgufFile;
class GgufMetadata;
class SafetensorsFile;
class TensorFile;
class LoomEntityFile;
class OnnxFile;
enum class CsvHeader;
enum class Packing : int;
struct CsvField;
struct CsvNumber;
struct CsvOptions;
struct Tensor;
struct EntityLimits;
struct EntityOptions;
struct GgufType;
struct LoomBlob;
struct OnnxModel;
}  // namespace weft::formats
