// Functions<A>: every operator, for arrays of kind A. `nd` works on NDArrays, `sym` on Symbols. The list is the API
// reference; its first parts are in array_functions.h and numpy_functions.h. Attributes are the structs in namespace
// op: nd.FullyConnected(x, w, b, {.num_hidden = 8}). Their headers have the whole formulae. Names with _ in front are
// for other operators: gradients and parts.
#pragma once

#include <concepts>
#include <initializer_list>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/ops/array_values.h"
#include "kaon/ops/numpy_functions.h"

namespace KAON_API kaon {

// The operators of neural networks.
template <class A>
class LayerFunctions : public NumpyFunctions<A> {
 public:
  using NumpyFunctions<A>::call;
  // clang-format off
  // --- neural networks, floating dtypes. y = x W^T + b with W (num_hidden, in)
  A FullyConnected(const In<A>& data, const In<A>& weight, const In<A>& bias, const op::FullyConnected& op) const { return call(op, data, weight, bias); }
  A FullyConnected(const In<A>& data, const In<A>& weight, op::FullyConnected op) const { return op.no_bias = true, call(op, data, weight); }
  // x (batch, channel, 1 to 3 axes), w (num_filter, channel / num_group, kernel...): cross-correlation
  A Convolution(const In<A>& data, const In<A>& weight, const In<A>& bias, const op::Convolution& op) const { return call(op, data, weight, bias); }
  A Convolution(const In<A>& data, const In<A>& weight, op::Convolution op) const { return op.no_bias = true, call(op, data, weight); }
  A _backward_Convolution_data(const In<A>& head, const In<A>& weight, const In<A>& data, const op::ConvolutionBackwardData& op) const { return call(op, head, weight, data); }
  std::vector<A> _backward_Convolution_weight(const In<A>& head, const In<A>& data, const op::ConvolutionBackwardWeight& op) const { return call_many(op.num_outputs(), op, head, data); }
  A Deconvolution(const In<A>& data, const In<A>& weight, const In<A>& bias, op::Deconvolution op) const { return op.no_bias = false, call(op, data, weight, bias); }
  A Deconvolution(const In<A>& data, const In<A>& weight, const op::Deconvolution& op) const { return call(op, data, weight); }
  A Pooling(const In<A>& data, const op::Pooling& op) const { return call(op, data); }  // max, avg, sum, lp
  A _backward_Pooling(const In<A>& head, const In<A>& data, const In<A>& output, const op::BackwardPooling& op) const { return call(op, head, data, output); }
  A _pooling_along(const In<A>& tangent, const In<A>& data, const In<A>& output, const op::PoolingAlong& op) const { return call(op, tangent, data, output); }
  std::vector<A> max_pool_indices(const In<A>& data, const op::MaxPoolIndices& op) const { return call_many(2, op, data); }  // maxima and their places
  A max_unpool(const In<A>& data, const In<A>& indices, const op::MaxUnpool& op) const { return call(op, data, indices); }  // elements at their places
  A _backward_max_pool_indices(const In<A>& head, const In<A>& indices, const op::BackwardMaxPoolIndices& op) const { return call(op, head, indices); }
  A _plane_take(const In<A>& data, const In<A>& indices) const { return call(op::PlaneTake{}, data, indices); }
  // convolutions whose windows' elements have moved by offset (n, 2 kh kw, h', w'); modulated: and are multiplied by mask
  A DeformableConvolution(const In<A>& data, const In<A>& offset, const In<A>& weight, const In<A>& bias, const op::DeformableConvolution& op) const { return call(op, data, offset, weight, bias); }
  A DeformableConvolution(const In<A>& data, const In<A>& offset, const In<A>& weight, op::DeformableConvolution op) const { return op.no_bias = true, call(op, data, offset, weight); }
  A ModulatedDeformableConvolution(const In<A>& data, const In<A>& offset, const In<A>& mask, const In<A>& weight, const In<A>& bias, const op::ModulatedDeformableConvolution& op) const { return call(op, data, offset, mask, weight, bias); }
  A ModulatedDeformableConvolution(const In<A>& data, const In<A>& offset, const In<A>& mask, const In<A>& weight, op::ModulatedDeformableConvolution op) const { return op.no_bias = true, call(op, data, offset, mask, weight); }
  // --- images (n, c, h, w) at positions of a grid (n, 2, h', w'), x and y from -1 to 1; grids; two images compared
  A GridGenerator(const In<A>& data, const op::GridGenerator& op) const { return call(op, data); }
  A BilinearSampler(const In<A>& data, const In<A>& grid, const op::BilinearSampler& op = {}) const { return call(op, data, grid); }
  A SpatialTransformer(const In<A>& data, const In<A>& loc, const op::SpatialTransformer& op) const { return call(op, data, loc); }
  A Correlation(const In<A>& data1, const In<A>& data2, const op::Correlation& op = {}) const { return call(op, data1, data2); }
  std::vector<A> _backward_Correlation(const In<A>& head, const In<A>& data1, const In<A>& data2, const op::BackwardCorrelation& op) const { return call_many(2, op, head, data1, data2); }
  A _sample_images(const In<A>& data, const In<A>& positions, const op::SampleImages& op) const { return call(op, data, positions); }
  A _sample_images(const In<A>& data, const In<A>& positions, const In<A>& mask, const op::SampleImages& op) const { return call(op, data, positions, mask); }
  A _backward_sample_images_data(const In<A>& head, const In<A>& positions, const op::BackwardSampleImagesData& op) const { return call(op, head, positions); }
  A _backward_sample_images_data(const In<A>& head, const In<A>& positions, const In<A>& mask, const op::BackwardSampleImagesData& op) const { return call(op, head, positions, mask); }
  std::vector<A> _backward_sample_images_positions(const In<A>& head, const In<A>& data, const In<A>& positions, const op::BackwardSampleImagesPositions& op) const { return call_many(1, op, head, data, positions); }
  std::vector<A> _backward_sample_images_positions(const In<A>& head, const In<A>& data, const In<A>& positions, const In<A>& mask, const op::BackwardSampleImagesPositions& op) const { return call_many(2, op, head, data, positions, mask); }
  A im2col(const In<A>& data, const op::Im2col& op) const { return call(op, data); }  // images as columns of their windows
  A col2im(const In<A>& data, const op::Col2im& op) const { return call(op, data); }  // sums of such columns as images
  // --- images (n, c, h, w) at another size
  A BilinearResize2D(const In<A>& data, const op::BilinearResize2D& op) const { return call(op, data); }
  A BilinearResize2D(const In<A>& data, const In<A>& like, op::BilinearResize2D op = {}) const { return op.mode = ResizeMode::like, call(op, data, like); }
  A AdaptiveAvgPooling2D(const In<A>& data, const Shape& output_size = {}) const { return call(op::AdaptiveAvgPooling2D{.output_size = output_size}, data); }
  A UpSampling(const In<A>& data, const op::UpSampling& op) const { return call(op, data); }
  A UpSampling(std::span<const A> arrays, op::UpSampling op, const std::source_location& site = std::source_location::current()) const {
    return op.num_args = int(arrays.size()), call_array_list(op, arrays, site);
  }
  A UpSampling(const In<A>& data, const In<A>& weight, op::UpSampling op) const { return op.sample_type = UpSamplingType::bilinear, call(op, data, weight); }
  A Crop(const In<A>& data, const op::Crop& op) const { return call(op, data); }
  A Crop(const In<A>& data, const In<A>& crop_like, op::Crop op = {}) const { return op.num_args = 2, call(op, data, crop_like); }
  A _resample(const In<A>& data, const op::Resample& op) const { return call(op, data); }
  // --- images (height, width, channels) or a batch of these; normalize has channels first
  A image_to_tensor(const In<A>& data) const { return call(op::ImageToTensor{}, data); }
  A image_normalize(const In<A>& data, const op::ImageNormalize& op) const { return call(op, data); }
  A image_crop(const In<A>& data, const op::ImageCrop& op) const { return call(op, data); }
  A image_resize(const In<A>& data, const Shape& size, op::ImageResize op = {}) const { return op.size = size, call(op, data); }  // (width, height)
  A image_flip_left_right(const In<A>& data) const { return call(op::ImageFlipLeftRight{}, data); }
  A image_flip_top_bottom(const In<A>& data) const { return call(op::ImageFlipTopBottom{}, data); }
  A image_random_flip_left_right(const In<A>& data) const { return call(op::ImageRandomFlipLeftRight{}, data); }
  A image_random_flip_top_bottom(const In<A>& data) const { return call(op::ImageRandomFlipTopBottom{}, data); }
  A image_random_brightness(const In<A>& data, double min_factor, double max_factor, op::ImageRandomBrightness op = {}) const { return op.min_factor = min_factor, op.max_factor = max_factor, call(op, data); }
  A image_random_contrast(const In<A>& data, double min_factor, double max_factor, op::ImageRandomContrast op = {}) const { return op.min_factor = min_factor, op.max_factor = max_factor, call(op, data); }
  A image_random_saturation(const In<A>& data, double min_factor, double max_factor, op::ImageRandomSaturation op = {}) const { return op.min_factor = min_factor, op.max_factor = max_factor, call(op, data); }
  A image_random_hue(const In<A>& data, double min_factor, double max_factor, op::ImageRandomHue op = {}) const { return op.min_factor = min_factor, op.max_factor = max_factor, call(op, data); }
  A image_random_color_jitter(const In<A>& data, const op::ImageRandomColorJitter& op) const { return call(op, data); }
  A image_adjust_lighting(const In<A>& data, const op::ImageAdjustLighting& op) const { return call(op, data); }
  A image_random_lighting(const In<A>& data, const op::ImageRandomLighting& op = {}) const { return call(op, data); }  // colours moved along their principal axes, by random amounts
  // --- object detection: boxes (..., 4) and their overlap; anchors; regions, rois (r, 5), of images. The headers say more
  A box_nms(const In<A>& data, const op::BoxNms& op = {}) const { return call(op, data); }  // without boxes that overlap a better one
  A _box_suppress(const In<A>& data, const In<A>& order, const op::BoxSuppress& op) const { return call(op, data, order); }
  A _box_take(const In<A>& data, const In<A>& rows, const op::BoxTake& op) const { return call(op, data, rows); }
  A _backward_box_take(const In<A>& head, const In<A>& rows, const op::BackwardBoxTake& op) const { return call(op, head, rows); }
  A box_iou(const In<A>& lhs, const In<A>& rhs, const op::BoxIou& op = {}) const { return call(op, lhs, rhs); }  // each with each
  A box_decode(const In<A>& data, const In<A>& anchors, const op::BoxDecode& op = {}) const { return call(op, data, anchors); }
  std::vector<A> box_encode(const In<A>& samples, const In<A>& matches, const In<A>& anchors, const In<A>& refs, const In<A>& means, const In<A>& stds) const {  // targets and masks
    return call_many(2, op::BoxEncode{}, samples, matches, anchors, refs, means, stds);
  }
  std::vector<A> bipartite_matching(const In<A>& data, const op::BipartiteMatching& op) const { return call_many(2, op, data); }  // by row, by column
  std::vector<A> _bipartite_pairs(const In<A>& data, const In<A>& order, const op::BipartitePairs& op) const { return call_many(2, op, data, order); }
  A MultiBoxPrior(const In<A>& data, const op::MultiBoxPrior& op = {}) const { return call(op, data); }
  A MultiBoxDetection(const In<A>& cls_prob, const In<A>& loc_pred, const In<A>& anchor, const op::MultiBoxDetection& op = {}) const { return call(op, cls_prob, loc_pred, anchor); }
  A _multibox_rows(const In<A>& cls_prob, const In<A>& loc_pred, const In<A>& anchor, const op::MultiBoxRows& op) const { return call(op, cls_prob, loc_pred, anchor); }
  std::vector<A> MultiBoxTarget(const In<A>& anchor, const In<A>& label, const In<A>& cls_pred, const op::MultiBoxTarget& op = {}) const { return call_many(3, op, anchor, label, cls_pred); }
  A ROIAlign(const In<A>& data, const In<A>& rois, const op::ROIAlign& op) const { return call(op, data, rois); }
  A _backward_ROIAlign(const In<A>& head, const In<A>& rois, const op::BackwardROIAlign& op) const { return call(op, head, rois); }
  A ROIPooling(const In<A>& data, const In<A>& rois, const op::ROIPooling& op) const { return call(op, data, rois); }
  A _backward_ROIPooling(const In<A>& head, const In<A>& rois, const In<A>& pixels, const op::BackwardROIPooling& op) const { return call(op, head, rois, pixels); }
  A PSROIPooling(const In<A>& data, const In<A>& rois, const op::PSROIPooling& op) const { return call(op, data, rois); }
  A _backward_PSROIPooling(const In<A>& head, const In<A>& rois, const op::BackwardPSROIPooling& op) const { return call(op, head, rois); }
  A DeformablePSROIPooling(const In<A>& data, const In<A>& rois, const In<A>& trans, const op::DeformablePSROIPooling& op) const { return call(op, data, rois, trans); }
  A DeformablePSROIPooling(const In<A>& data, const In<A>& rois, op::DeformablePSROIPooling op) const { return op.no_trans = true, call(op, data, rois); }
  A _backward_DeformablePSROIPooling_data(const In<A>& head, const In<A>& rois, const op::BackwardDeformablePSROIPoolingData& op) const { return call(op, head, rois); }
  A _backward_DeformablePSROIPooling_data(const In<A>& head, const In<A>& rois, const In<A>& trans, const op::BackwardDeformablePSROIPoolingData& op) const { return call(op, head, rois, trans); }
  A _backward_DeformablePSROIPooling_trans(const In<A>& head, const In<A>& data, const In<A>& rois, const In<A>& trans, const op::BackwardDeformablePSROIPoolingTrans& op) const { return call(op, head, data, rois, trans); }
  A RROIAlign(const In<A>& data, const In<A>& rois, const op::RROIAlign& op) const { return call(op, data, rois); }  // rotated
  A _backward_RROIAlign(const In<A>& head, const In<A>& rois, const op::BackwardRROIAlign& op) const { return call(op, head, rois); }
  // the boxes that a network of region proposals finds, and with output_score their scores
  std::vector<A> Proposal(const In<A>& cls_prob, const In<A>& bbox_pred, const In<A>& im_info, const op::Proposal& op = {}) const { return call_many(op.num_outputs(), op, cls_prob, bbox_pred, im_info); }
  std::vector<A> MultiProposal(const In<A>& cls_prob, const In<A>& bbox_pred, const In<A>& im_info, const op::MultiProposal& op = {}) const { return call_many(op.num_outputs(), op, cls_prob, bbox_pred, im_info); }
  A _proposal_rows(const In<A>& cls_prob, const In<A>& bbox_pred, const In<A>& im_info, const op::ProposalRows& op) const { return call(op, cls_prob, bbox_pred, im_info); }
  std::vector<A> _proposal_rois(const In<A>& rows, const In<A>& kept, const op::ProposalRois& op) const { return call_many(2, op, rows, kept); }
  // --- quantised arrays: results are levels, minimum and maximum. ops/quant/quant.h says what they mean
  std::vector<A> quantize(const In<A>& data, const In<A>& min_range, const In<A>& max_range, const op::Quantize& op = {}) const { return call_many(3, op, data, min_range, max_range); }
  std::vector<A> quantize_v2(const In<A>& data, const op::QuantizeV2& op = {}) const { return call_many(3, op, data); }
  std::vector<A> quantize_asym(const In<A>& data, const op::QuantizeAsym& op = {}) const { return call_many(3, op, data); }  // levels, scale and shift
  A dequantize(const In<A>& data, const In<A>& min_range, const In<A>& max_range, const op::Dequantize& op = {}) const { return call(op, data, min_range, max_range); }
  std::vector<A> requantize(const In<A>& data, const In<A>& min_range, const In<A>& max_range, const op::Requantize& op = {}) const { return call_many(3, op, data, min_range, max_range); }
  std::vector<A> calibrate_entropy(const In<A>& hist, const In<A>& hist_edges, const op::CalibrateEntropy& op = {}) const { return call_many(2, op, hist, hist_edges); }  // bound, divergence
  std::vector<A> quantized_act(const In<A>& data, const In<A>& min_data, const In<A>& max_data, const op::QuantizedAct& op = {}) const { return call_many(3, op, data, min_data, max_data); }
  std::vector<A> quantized_flatten(const In<A>& data, const In<A>& min_data, const In<A>& max_data) const { return call_many(3, op::QuantizedFlatten{}, data, min_data, max_data); }  // levels as (batch, rest)
  std::vector<A> quantized_embedding(const In<A>& data, const In<A>& weight, const In<A>& min_weight, const In<A>& max_weight, const op::QuantizedEmbedding& op) const { return call_many(3, op, data, weight, min_weight, max_weight); }
  // `arrays`: n arrays, then the minimum and maximum of each
  std::vector<A> quantized_concat(std::span<const A> arrays, op::QuantizedConcat op = {}, const std::source_location& site = std::source_location::current()) const {
    return op.num_args = int(arrays.size() / 3), call_list_many(3, op, arrays, site);
  }
  std::vector<A> quantized_elemwise_add(const In<A>& lhs, const In<A>& rhs, const In<A>& lhs_min, const In<A>& lhs_max, const In<A>& rhs_min, const In<A>& rhs_max, const op::QuantizedElemwiseAdd& op = {}) const {
    return call_many(3, op, lhs, rhs, lhs_min, lhs_max, rhs_min, rhs_max);
  }
  std::vector<A> quantized_elemwise_mul(const In<A>& lhs, const In<A>& rhs, const In<A>& lhs_min, const In<A>& lhs_max, const In<A>& rhs_min, const In<A>& rhs_max, const op::QuantizedElemwiseMul& op = {}) const {
    return call_many(op.num_outputs(), op, lhs, rhs, lhs_min, lhs_max, rhs_min, rhs_max);
  }
  std::vector<A> quantized_batch_norm(const In<A>& data, const In<A>& gamma, const In<A>& beta, const In<A>& moving_mean, const In<A>& moving_var, const In<A>& min_data, const In<A>& max_data, const op::QuantizedBatchNorm& op) const {
    return call_many(3, op, data, gamma, beta, moving_mean, moving_var, min_data, max_data);
  }
  std::vector<A> quantized_pooling(const In<A>& data, const In<A>& min_data, const In<A>& max_data, const op::QuantizedPooling& op) const { return call_many(3, op, data, min_data, max_data); }
  // the arrays are those that the headers name: data, weight, bias, and their ranges
  std::vector<A> quantized_conv(std::span<const A> arrays, const op::QuantizedConv& op, const std::source_location& site = std::source_location::current()) const { return call_list_many(3, op, arrays, site); }
  std::vector<A> quantized_fully_connected(std::span<const A> arrays, const op::QuantizedFullyConnected& op, const std::source_location& site = std::source_location::current()) const { return call_list_many(3, op, arrays, site); }
  std::vector<A> _sg_mkldnn_conv(std::span<const A> arrays, const op::SgConv& op, const std::source_location& site = std::source_location::current()) const { return call_list_many(op.num_outputs(), op, arrays, site); }
  std::vector<A> _sg_mkldnn_fully_connected(std::span<const A> arrays, const op::SgFullyConnected& op, const std::source_location& site = std::source_location::current()) const { return call_list_many(op.num_outputs(), op, arrays, site); }
  std::vector<A> _fused_quantized_conv(std::span<const A* const> arrays, const op::FusedQuantizedConv& op, const std::source_location& site = std::source_location::current()) const { return call_list_many(3, op, arrays, site); }
  std::vector<A> _fused_quantized_fully_connected(std::span<const A* const> arrays, const op::FusedQuantizedFullyConnected& op, const std::source_location& site = std::source_location::current()) const { return call_list_many(op.num_outputs(), op, arrays, site); }
  // --- normalisation: gamma (x - mean) / sqrt(var + eps) + beta. BatchNorm: per index of axis 1, by the batch in training
  A BatchNorm(const In<A>& data, const In<A>& gamma, const In<A>& beta, const In<A>& moving_mean, const In<A>& moving_var, const op::BatchNorm& op = {}) const { return call(op, data, gamma, beta, moving_mean, moving_var); }
  std::vector<A> BatchNorm_mean_var(const In<A>& data, const In<A>& gamma, const In<A>& beta, const In<A>& moving_mean, const In<A>& moving_var, op::BatchNorm op = {}) const {  // and the mean, 1 / sqrt(var + eps)
    return op.output_mean_var = true, call_many(3, op, data, gamma, beta, moving_mean, moving_var);
  }
  A BatchNormWithReLU(const In<A>& data, const In<A>& gamma, const In<A>& beta, const In<A>& moving_mean, const In<A>& moving_var, op::BatchNormWithReLU op = {}) const { return op.output_mean_var = false, call(op, data, gamma, beta, moving_mean, moving_var); }
  std::vector<A> _backward_BatchNorm(const In<A>& head, const In<A>& data, const In<A>& gamma, const In<A>& mean, const In<A>& inverse_std, const op::BackwardBatchNorm& op) const { return call_many(3, op, head, data, gamma, mean, inverse_std); }
  A LayerNorm(const In<A>& data, const In<A>& gamma, const In<A>& beta, const op::LayerNorm& op = {}) const { return call(op, data, gamma, beta); }
  std::vector<A> LayerNorm_mean_var(const In<A>& data, const In<A>& gamma, const In<A>& beta, op::LayerNorm op = {}) const { return op.output_mean_var = true, call_many(3, op, data, gamma, beta); }  // and the mean, sqrt(var + eps)
  std::vector<A> _backward_LayerNorm(const In<A>& head, const In<A>& data, const In<A>& gamma, const In<A>& mean, const In<A>& std, const op::BackwardLayerNorm& op) const { return call_many(3, op, head, data, gamma, mean, std); }
  A SyncBatchNorm(const In<A>& data, const In<A>& gamma, const In<A>& beta, const In<A>& moving_mean, const In<A>& moving_var, op::SyncBatchNorm op = {}) const { return op.output_mean_var = false, call(op, data, gamma, beta, moving_mean, moving_var); }
  std::vector<A> SyncBatchNorm_mean_var(const In<A>& data, const In<A>& gamma, const In<A>& beta, const In<A>& moving_mean, const In<A>& moving_var, op::SyncBatchNorm op = {}) const { return op.output_mean_var = true, call_many(3, op, data, gamma, beta, moving_mean, moving_var); }  // and the mean, the variance
  A InstanceNorm(const In<A>& data, const In<A>& gamma, const In<A>& beta, const op::InstanceNorm& op = {}) const { return call(op, data, gamma, beta); }
  A GroupNorm(const In<A>& data, const In<A>& gamma, const In<A>& beta, const op::GroupNorm& op = {}) const { return call(op, data, gamma, beta); }
  std::vector<A> GroupNorm_mean_var(const In<A>& data, const In<A>& gamma, const In<A>& beta, op::GroupNorm op = {}) const { return op.output_mean_var = true, call_many(3, op, data, gamma, beta); }  // as LayerNorm_mean_var
  A RMSNorm(const In<A>& data, const In<A>& gamma, const op::RMSNorm& op = {}) const { return call(op, data, gamma); }
  A L2Normalization(const In<A>& data, const op::L2Normalization& op = {}) const { return call(op, data); }
  A LRN(const In<A>& data, const op::LRN& op) const { return call(op, data); }
  std::vector<A> moments(const In<A>& data, const op::Moments& op) const { return call_many(2, op, data); }  // mean and variance
  // --- attention: queries, keys and values of `heads` heads side by side
  A interleaved_matmul_selfatt_qk(const In<A>& queries_keys_values, const op::SelfAttentionQK& op) const { return call(op, queries_keys_values); }
  A interleaved_matmul_selfatt_valatt(const In<A>& queries_keys_values, const In<A>& attention, const op::SelfAttentionValue& op) const { return call(op, queries_keys_values, attention); }
  A interleaved_matmul_encdec_qk(const In<A>& queries, const In<A>& keys_values, const op::EncoderDecoderQK& op) const { return call(op, queries, keys_values); }
  A interleaved_matmul_encdec_valatt(const In<A>& keys_values, const In<A>& attention, const op::EncoderDecoderValue& op) const { return call(op, keys_values, attention); }
  A div_sqrt_dim(const In<A>& data) const { return call(op::DivSqrtDim{}, data); }  // x / sqrt(length of the last axis)
  // softmax(scale q k^T + mask) v for each head of query (batch, heads, n, dim), key and value (batch, kv_heads, m, ...);
  // `more` is the mask or valid_length, as op says
  A scaled_dot_product_attention(const In<A>& query, const In<A>& key, const In<A>& value, const op::ScaledDotProductAttention& op = {}) const { return call(op, query, key, value); }
  // more: the mask, or valid_length where op.use_valid_length is set
  A scaled_dot_product_attention(const In<A>& query, const In<A>& key, const In<A>& value, const In<A>& more, op::ScaledDotProductAttention op = {}) const {
    return op.use_mask = !op.use_valid_length, call(op, query, key, value, more);
  }
  A scaled_dot_product_attention(const In<A>& query, const In<A>& key, const In<A>& value, const In<A>& mask, const In<A>& valid_length, op::ScaledDotProductAttention op = {}) const {
    return op.use_mask = op.use_valid_length = true, call(op, query, key, value, mask, valid_length);
  }
  std::vector<A> _backward_scaled_dot_product_attention(std::span<const A* const> arrays, const op::BackwardScaledDotProductAttention& op, const std::source_location& site = std::source_location::current()) const { return call_list_many(3, op, arrays, site); }
  A rotary_embedding(const In<A>& data, const op::RotaryEmbedding& op = {}) const { return call(op, data); }  // data (..., length, dim)
  A rotary_embedding(const In<A>& data, const In<A>& positions, op::RotaryEmbedding op = {}) const { return op.use_positions = true, call(op, data, positions); }
  // --- signals: rows as pairs of their frequencies, and back; sums of signed columns; sequences of events
  A fft(const In<A>& data, const op::Fft& op = {}) const { return call(op, data); }  // (..., d) to (..., 2 d)
  A ifft(const In<A>& data, const op::Ifft& op = {}) const { return call(op, data); }  // (..., 2 d) to (..., d), times d
  A count_sketch(const In<A>& data, const In<A>& h, const In<A>& s, const op::CountSketch& op) const { return call(op, data, h, s); }
  std::vector<A> hawkesll(const In<A>& lda, const In<A>& alpha, const In<A>& beta, const In<A>& state, const In<A>& lags, const In<A>& marks, const In<A>& valid_length, const In<A>& max_time) const {  // likelihood, state
    return call_many(2, op::HawkesLL{}, lda, alpha, beta, state, lags, marks, valid_length, max_time);
  }
  std::vector<A> _backward_hawkesll(const In<A>& lda, const In<A>& alpha, const In<A>& beta, const In<A>& state, const In<A>& lags, const In<A>& marks, const In<A>& valid_length, const In<A>& max_time) const {
    return call_many(3, op::BackwardHawkesLL{}, lda, alpha, beta, state, lags, marks, valid_length, max_time);
  }
  // --- the operator that register_custom_operator has named op_type: its only output, or all
  A Custom(const In<A>& data, std::string_view op_type, const CustomAttributes& attributes = {}) const {
    return call(op::Custom{{engine::intern(op_type)}, {engine::intern(ops::custom_text(attributes))}}, data);
  }
  std::vector<A> Custom(std::span<const A> arrays, std::string_view op_type, const CustomAttributes& attributes = {}, const std::source_location& site = std::source_location::current()) const {
    const op::Custom op{{engine::intern(op_type)}, {engine::intern(ops::custom_text(attributes))}};
    return call_list_many(op.num_outputs(), op, arrays, site);
  }
  // --- recurrent layers over data (steps, batch, channels); the arrays are those that op::RNN names: parameters, state,
  // for lstm state_cell, and with use_sequence_length sequence_length. One result, or with state_outputs the states too
  A RNN(const In<A>& data, const In<A>& parameters, const In<A>& state, const op::RNN& op) const { return call(op, data, parameters, state); }
  A RNN(const In<A>& data, const In<A>& parameters, const In<A>& state, const In<A>& next, const op::RNN& op) const { return call(op, data, parameters, state, next); }
  A RNN(const In<A>& data, const In<A>& parameters, const In<A>& state, const In<A>& state_cell, const In<A>& sequence_length, const op::RNN& op) const { return call(op, data, parameters, state, state_cell, sequence_length); }
  std::vector<A> RNN_states(const In<A>& data, const In<A>& parameters, const In<A>& state, op::RNN op) const { return op.state_outputs = true, call_many(op.num_outputs(), op, data, parameters, state); }
  std::vector<A> RNN_states(const In<A>& data, const In<A>& parameters, const In<A>& state, const In<A>& next, op::RNN op) const { return op.state_outputs = true, call_many(op.num_outputs(), op, data, parameters, state, next); }
  std::vector<A> RNN_states(const In<A>& data, const In<A>& parameters, const In<A>& state, const In<A>& state_cell, const In<A>& sequence_length, op::RNN op) const { return op.state_outputs = true, call_many(op.num_outputs(), op, data, parameters, state, state_cell, sequence_length); }
  A _rnn_param_concat(std::span<const A> arrays, op::RnnParamConcat op = {}, const std::source_location& site = std::source_location::current()) const {
    return op.num_args = int(arrays.size()), call_array_list(op, arrays, site);
  }
  std::vector<A> _rnn_parameters(const In<A>& parameters, const op::RnnParameters& op) const { return call_many(op.num_outputs(), op, parameters); }
  std::vector<A> _rnn_scan(std::span<const A* const> arrays, const op::RnnScan& op, const std::source_location& site = std::source_location::current()) const { return call_list_many(2, op, arrays, site); }
  std::vector<A> _backward_rnn_scan(std::span<const A* const> arrays, const op::BackwardRnnScan& op, const std::source_location& site = std::source_location::current()) const { return call_list_many(op.num_outputs(), op, arrays, site); }
  // minus the logarithm of the probability of unaligned labels (n, length) under the softmax of data (steps, n, classes);
  // `lengths` are data_lengths, label_lengths, or both, as op says
  A CTCLoss(const In<A>& data, const In<A>& label, const op::CTCLoss& op = {}) const { return call(op, data, label); }
  A CTCLoss(const In<A>& data, const In<A>& label, const In<A>& lengths, const op::CTCLoss& op) const { return call(op, data, label, lengths); }
  A CTCLoss(const In<A>& data, const In<A>& label, const In<A>& data_lengths, const In<A>& label_lengths, op::CTCLoss op = {}) const { return op.use_data_lengths = op.use_label_lengths = true, call(op, data, label, data_lengths, label_lengths); }
  A _ctc_loss_of_logs(std::span<const A* const> arrays, const op::CtcLossOfLogs& op, const std::source_location& site = std::source_location::current()) const { return call_list(op, arrays, site); }
  // --- activations, softmax over op.axis (-1), dropout, output layers (the gradient of ...Output ignores the head)
  A Activation(const In<A>& data, const op::Activation& op) const { return call(op, data); }
  A _backward_Activation(const In<A>& head, const In<A>& output, const op::BackwardActivation& op) const {
    return call(op, head, output);
  }
  A LeakyReLU(const In<A>& data, const op::LeakyReLU& op = {}) const { return call(op, data); }
  A LeakyReLU(const In<A>& data, const In<A>& gamma, op::LeakyReLU op = {}) const {
    return op.act_type = LeakyType::prelu, call(op, data, gamma);
  }
  A _backward_LeakyReLU(const In<A>& head, const In<A>& data, const op::BackwardLeakyReLU& op) const {
    return call(op, head, data);
  }
  A _backward_LeakyReLU(const In<A>& head, const In<A>& data, const In<A>& gamma, const op::BackwardLeakyReLU& op) const {
    return call(op, head, data, gamma);
  }
  A _backward_PReLU_gamma(const In<A>& head, const In<A>& data, const In<A>& gamma) const {
    return call(op::BackwardPReLUGamma{}, head, data, gamma);
  }
  A silu(const In<A>& x) const { return call(op::Silu{}, x); }  // x sigmoid(x)
  A mish(const In<A>& x) const { return call(op::Mish{}, x); }  // x tanh(softrelu(x))
  A log_sigmoid(const In<A>& x) const { return call(op::LogSigmoid{}, x); }  // log(sigmoid(x))
  A hard_swish(const In<A>& x) const { return call(op::HardSwish{}, x); }  // x min(max(x / 6 + 1 / 2, 0), 1)
  A tanh_shrink(const In<A>& x) const { return call(op::TanhShrink{}, x); }  // x - tanh(x)
  A hard_shrink(const In<A>& x, const op::HardShrink& op = {}) const { return call(op, x); }  // 0 near 0
  A soft_shrink(const In<A>& x, const op::SoftShrink& op = {}) const { return call(op, x); }  // towards 0
  A celu(const In<A>& x, const op::Celu& op = {}) const { return call(op, x); }
  A threshold(const In<A>& x, const op::Threshold& op) const { return call(op, x); }
  A glu(const In<A>& x, const op::Glu& op = {}) const { return call(op, x); }  // one half gates the other
  A softmax(const In<A>& data, const op::Softmax& op = {}) const { return call(op, data); }
  A softmax(const In<A>& data, const In<A>& length, op::Softmax op = {}) const {  // of the first length[row] elements
    return op.use_length = true, call(op, data, length);
  }
  A softmin(const In<A>& data, const op::Softmin& op = {}) const { return call(op, data); }
  A log_softmax(const In<A>& data, const op::LogSoftmax& op = {}) const { return call(op, data); }
  A _backward_softmax(const In<A>& head, const In<A>& output, const op::BackwardSoftmax& op) const {
    return call(op, head, output);
  }
  A _backward_log_softmax(const In<A>& head, const In<A>& output, const op::BackwardLogSoftmax& op) const {
    return call(op, head, output);
  }
  A SoftmaxActivation(const In<A>& data, const op::SoftmaxActivation& op = {}) const { return call(op, data); }
  A _backward_SoftmaxActivation(const In<A>& head, const In<A>& output, const op::BackwardSoftmaxActivation& op) const {
    return call(op, head, output);
  }
  A SoftmaxOutput(const In<A>& data, const In<A>& label, const op::SoftmaxOutput& op = {}) const {
    return call(op, data, label);
  }
  A _backward_SoftmaxOutput(const In<A>& output, const In<A>& label, const op::BackwardSoftmaxOutput& op) const {
    return call(op, output, label);
  }
  A _backward_SoftmaxOutput(const In<A>& output, const In<A>& label, const In<A>& head,
                            const op::BackwardSoftmaxOutput& op) const {
    return call(op, output, label, head);
  }
  A softmax_cross_entropy(const In<A>& data, const In<A>& label) const {  // (n, c), (n,) to (1,): summed
    return call(op::SoftmaxCrossEntropy{}, data, label);
  }
  A _backward_softmax_cross_entropy(const In<A>& head, const In<A>& data, const In<A>& label) const {
    return call(op::BackwardSoftmaxCrossEntropy{}, head, data, label);
  }
  A LinearRegressionOutput(const In<A>& data, const In<A>& label, const op::LinearRegressionOutput& op = {}) const {
    return call(op, data, label);
  }
  A MAERegressionOutput(const In<A>& data, const In<A>& label, const op::MAERegressionOutput& op = {}) const {
    return call(op, data, label);
  }
  A LogisticRegressionOutput(const In<A>& data, const In<A>& label,
                             const op::LogisticRegressionOutput& op = {}) const {
    return call(op, data, label);
  }
  A _backward_RegressionOutput(const In<A>& output, const In<A>& label, const op::BackwardRegressionOutput& op) const {
    return call(op, output, label);
  }
  A MakeLoss(const In<A>& data, const op::MakeLoss& op = {}) const { return call(op, data); }
  A _backward_MakeLoss(const In<A>& data, const op::BackwardMakeLoss& op) const { return call(op, data); }
  A SparseEmbedding(const In<A>& data, const In<A>& weight, const op::SparseEmbedding& op) const { return call(op, data, weight); }  // as Embedding
  A SVMOutput(const In<A>& data, const In<A>& label, const op::SVMOutput& op = {}) const { return call(op, data, label); }
  A IdentityAttachKLSparseReg(const In<A>& data, const In<A>& moving_avg, const op::IdentityAttachKLSparseReg& op = {}) const { return call(op, data, moving_avg); }
  A Dropout(const In<A>& data, const op::Dropout& op = {}) const { return call(op, data); }
  // clang-format on

 protected:
  using NumpyFunctions<A>::call_array_list;
  using NumpyFunctions<A>::call_list;
  using NumpyFunctions<A>::call_list_many;
  using NumpyFunctions<A>::call_many;
};

// Each call checks its inputs (ShapeError, TypeError, DeviceError, ValueError for attributes, StateError for an array
// that is undefined or whose engine has ended), pushes, and gives the result at once; an operator that fails while it
// runs throws at a later wait. Thread safety: stateless apart from the name; any thread.
template <class A>
class Functions : public LayerFunctions<A> {
 public:
  using LayerFunctions<A>::call;
  constexpr Functions() = default;
  // The same functions giving their next node this name in a Symbol (F.as("fwd").relu(x)).
  constexpr Functions as(std::string_view name) const {
    Functions f;
    f.name_ = name;
    return f;
  }
  // clang-format off
  // --- creation and random numbers: float32 on the current device unless the options say otherwise; pushes only
  using Site = std::source_location;
  A zeros(const Shape& shape, const ArrayOptions& o = {}, Site site = Site::current()) const {
    return create(op::Zeros{.shape = shape, .dtype = dtype<float>(o), .ctx = o.device}, site);
  }
  A ones(const Shape& shape, const ArrayOptions& o = {}, Site site = Site::current()) const {
    return create(op::Ones{.shape = shape, .dtype = dtype<float>(o), .ctx = o.device}, site);
  }
  A full(const Shape& shape, Number value, const ArrayOptions& o = {}, Site site = Site::current()) const {
    return create(op::Full{.shape = shape, .value = value, .dtype = dtype<float>(o), .ctx = o.device}, site);
  }
  A arange(Number stop, op::Arange op = {}, Site site = Site::current()) const {  // 0, step, ... below stop
    return op.start = stop, op.stop.reset(), create(op, site);
  }
  A arange(Number start, Number stop, op::Arange op = {}, Site site = Site::current()) const {
    return op.start = start, op.stop = stop, create(op, site);
  }
  A linspace(double start, double stop, int64_t num, op::Linspace op = {}, Site site = Site::current()) const {
    return op.start = start, op.stop = stop, op.num = num, create(op, site);
  }
  A eye(int64_t rows, op::Eye op = {}, Site site = Site::current()) const { return op.N = rows, create(op, site); }
  A logspace(double start, double stop, op::LogSpace op = {}, Site site = Site::current()) const { return op.start = start, op.stop = stop, create(op, site); }
  A indices(const Shape& dimensions, op::Indices op = {}, Site site = Site::current()) const { return op.dimensions = dimensions, create(op, site); }
  A blackman(int64_t points, op::Blackman op = {}, Site site = Site::current()) const { return op.M = points, create(op, site); }
  A hamming(int64_t points, op::Hamming op = {}, Site site = Site::current()) const { return op.M = points, create(op, site); }
  A hanning(int64_t points, op::Hanning op = {}, Site site = Site::current()) const { return op.M = points, create(op, site); }
  A _npi_eye(const op::NumpyEye& op, Site site = Site::current()) const { return create(op, site); }
  A _npi_identity(const op::Identity& op, Site site = Site::current()) const { return create(op, site); }
  A random_uniform(const Shape& shape, op::RandomUniform op = {}, Site site = Site::current()) const {
    return op.shape = shape, create(op, site);
  }
  A random_normal(const Shape& shape, op::RandomNormal op = {}, Site site = Site::current()) const {
    return op.shape = shape, create(op, site);
  }
  A random_randint(int64_t low, int64_t high, const Shape& shape, op::RandomRandint op = {},
                   Site site = Site::current()) const {
    return op.low = low, op.high = high, op.shape = shape, create(op, site);
  }
  A sample_multinomial(const In<A>& probabilities, const op::SampleMultinomial& op = {}) const {  // class numbers, int32
    return call(op, probabilities);
  }
  std::vector<A> sample_multinomial_prob(const In<A>& probabilities, op::SampleMultinomial op = {}) const {  // and the logarithms of theirs
    return op.get_prob = true, call_many(2, op, probabilities);
  }
  std::vector<A> sample_unique_zipfian(int64_t range_max, const Shape& shape, op::SampleUniqueZipfian op = {}, Site site = Site::current()) const {  // and the number of tries
    return op.range_max = range_max, op.shape = shape, call_list_many(2, op, std::span<const A* const>(), site);
  }
  A shuffle(const In<A>& data) const { return call(op::Shuffle{}, data); }  // rows in random order; no gradient
  // Draws with the parameters of op; in the shape and dtype of data; with arrays of parameters, op.shape draws for each
  A random_gamma(const Shape& shape, op::RandomGamma op = {}, Site site = Site::current()) const { return op.shape = shape, create(op, site); }
  A random_exponential(const Shape& shape, op::RandomExponential op = {}, Site site = Site::current()) const { return op.shape = shape, create(op, site); }
  A random_poisson(const Shape& shape, op::RandomPoisson op = {}, Site site = Site::current()) const { return op.shape = shape, create(op, site); }
  A random_negative_binomial(const Shape& shape, op::RandomNegativeBinomial op = {}, Site site = Site::current()) const { return op.shape = shape, create(op, site); }
  A random_generalized_negative_binomial(const Shape& shape, op::RandomGeneralizedNegativeBinomial op = {}, Site site = Site::current()) const { return op.shape = shape, create(op, site); }
  A random_uniform_like(const In<A>& data, const op::RandomUniformLike& op = {}) const { return call(op, data); }
  A random_normal_like(const In<A>& data, const op::RandomNormalLike& op = {}) const { return call(op, data); }  // as random_normal
  A random_gamma_like(const In<A>& data, const op::RandomGammaLike& op = {}) const { return call(op, data); }  // as random_gamma
  A random_exponential_like(const In<A>& data, const op::RandomExponentialLike& op = {}) const { return call(op, data); }  // as random_exponential
  A random_poisson_like(const In<A>& data, const op::RandomPoissonLike& op = {}) const { return call(op, data); }  // as random_poisson
  A random_negative_binomial_like(const In<A>& data, const op::RandomNegativeBinomialLike& op = {}) const { return call(op, data); }  // as random_negative_binomial
  A random_generalized_negative_binomial_like(const In<A>& data, const op::RandomGeneralizedNegativeBinomialLike& op = {}) const { return call(op, data); }  // as random_generalized_negative_binomial
  A sample_uniform(const In<A>& low, const In<A>& high, const op::SampleUniform& op = {}) const { return call(op, low, high); }
  A sample_normal(const In<A>& mu, const In<A>& sigma, const op::SampleNormal& op = {}) const { return call(op, mu, sigma); }
  A sample_gamma(const In<A>& alpha, const In<A>& beta, const op::SampleGamma& op = {}) const { return call(op, alpha, beta); }
  A sample_exponential(const In<A>& lam, const op::SampleExponential& op = {}) const { return call(op, lam); }
  A sample_poisson(const In<A>& lam, const op::SamplePoisson& op = {}) const { return call(op, lam); }
  A sample_negative_binomial(const In<A>& k, const In<A>& p, const op::SampleNegativeBinomial& op = {}) const { return call(op, k, p); }
  A sample_generalized_negative_binomial(const In<A>& mu, const In<A>& alpha, const op::SampleGeneralizedNegativeBinomial& op = {}) const { return call(op, mu, alpha); }
  // NumPy's: numbers as parameters and a size, or arrays, whose gradient is that of the draw at its noise
  A random_gumbel(const Shape& size, op::RandomGumbel op = {}, Site site = Site::current()) const { return op.size = size, create(op, site); }
  A random_gumbel(const In<A>& loc, const In<A>& scale, op::RandomGumbel op = {}) const { return op.loc.reset(), op.scale.reset(), call(op, loc, scale); }
  A random_logistic(const Shape& size, op::RandomLogistic op = {}, Site site = Site::current()) const { return op.size = size, create(op, site); }
  A random_logistic(const In<A>& loc, const In<A>& scale, op::RandomLogistic op = {}) const { return op.loc.reset(), op.scale.reset(), call(op, loc, scale); }
  A random_laplace(const Shape& size, op::RandomLaplace op = {}, Site site = Site::current()) const { return op.size = size, create(op, site); }
  A random_laplace(const In<A>& loc, const In<A>& scale, op::RandomLaplace op = {}) const { return op.loc.reset(), op.scale.reset(), call(op, loc, scale); }
  A random_rayleigh(const Shape& size, op::RandomRayleigh op, Site site = Site::current()) const { return op.size = size, create(op, site); }
  A random_rayleigh(const In<A>& scale, op::RandomRayleigh op = {}) const { return op.scale.reset(), call(op, scale); }
  A random_pareto(const Shape& size, op::RandomPareto op, Site site = Site::current()) const { return op.size = size, create(op, site); }
  A random_pareto(const In<A>& a, op::RandomPareto op = {}) const { return op.a.reset(), call(op, a); }
  A random_weibull(const Shape& size, op::RandomWeibull op, Site site = Site::current()) const { return op.size = size, create(op, site); }
  A random_weibull(const In<A>& a, op::RandomWeibull op = {}) const { return op.a.reset(), call(op, a); }
  A random_exponential(const In<A>& scale, op::RandomScaledExponential op = {}) const { return op.scale.reset(), call(op, scale); }
  A random_normal(const In<A>& loc, const In<A>& scale, op::RandomNormalOf op = {}) const { return op.loc.reset(), op.scale.reset(), call(op, loc, scale); }
  A random_normal_n(const In<A>& loc, const In<A>& scale, op::RandomNormalN op = {}) const { return op.loc.reset(), op.scale.reset(), call(op, loc, scale); }
  A random_uniform(const In<A>& low, const In<A>& high, op::RandomUniformOf op = {}) const { return op.low.reset(), op.high.reset(), call(op, low, high); }
  A random_uniform_n(const In<A>& low, const In<A>& high, op::RandomUniformN op = {}) const { return op.low.reset(), op.high.reset(), call(op, low, high); }  // as random_uniform, op.size draws for each pair of parameters
  A random_gamma(const In<A>& shape, const In<A>& scale, op::RandomGammaOf op = {}) const { return op.shape.reset(), op.scale.reset(), call(op, shape, scale); }
  A random_bernoulli(const Shape& size, op::RandomBernoulli op, Site site = Site::current()) const { return op.size = size, create(op, site); }
  A random_bernoulli(const In<A>& prob, op::RandomBernoulli op = {}) const { return op.prob.reset(), op.logit.reset(), call(op, prob); }  // op.is_logit: of logits
  A random_power(const Shape& size, op::RandomPower op, Site site = Site::current()) const { return op.size = size, create(op, site); }  // density a x^(a - 1) in (0, 1)
  A random_power(const In<A>& a, op::RandomPower op = {}) const { return op.a.reset(), call(op, a); }
  A random_truncated_normal(const Shape& size, op::RandomTruncatedNormal op = {}, Site site = Site::current()) const { return op.size = size, create(op, site); }
  A random_dirichlet(const In<A>& alpha, const Shape& size = {}) const { return call(op::RandomDirichlet{.size = size}, alpha); }  // size + alpha's shape
  A random_choice(int64_t a, const Shape& size, op::RandomChoice op = {}, Site site = Site::current()) const { return op.a = a, op.size = size, op.weighted = false, create(op, site); }  // of 0 .. a - 1, int64
  A random_choice(const In<A>& probabilities, const Shape& size, op::RandomChoice op = {}) const { return op.a = op.a.value_or(probabilities.array().size()), op.size = size, op.weighted = true, call(op, probabilities); }
  A random_multinomial(int64_t n, const In<A>& pvals, const Shape& size = {}) const { return call(op::RandomMultinomial{.n = n, .size = size}, pvals); }  // counts of n trials
  // Densities, or with op.is_log their logarithms, at samples; parameters have the first dimensions of sample
  A random_pdf_uniform(const In<A>& sample, const In<A>& low, const In<A>& high, const op::PdfUniform& op = {}) const { return call(op, sample, low, high); }
  A random_pdf_normal(const In<A>& sample, const In<A>& mu, const In<A>& sigma, const op::PdfNormal& op = {}) const { return call(op, sample, mu, sigma); }
  A random_pdf_gamma(const In<A>& sample, const In<A>& alpha, const In<A>& beta, const op::PdfGamma& op = {}) const { return call(op, sample, alpha, beta); }
  A random_pdf_exponential(const In<A>& sample, const In<A>& lam, const op::PdfExponential& op = {}) const { return call(op, sample, lam); }
  A random_pdf_poisson(const In<A>& sample, const In<A>& lam, const op::PdfPoisson& op = {}) const { return call(op, sample, lam); }
  A random_pdf_negative_binomial(const In<A>& sample, const In<A>& k, const In<A>& p, const op::PdfNegativeBinomial& op = {}) const { return call(op, sample, k, p); }
  A random_pdf_generalized_negative_binomial(const In<A>& sample, const In<A>& mu, const In<A>& alpha, const op::PdfGeneralizedNegativeBinomial& op = {}) const { return call(op, sample, mu, alpha); }
  A random_pdf_dirichlet(const In<A>& sample, const In<A>& alpha, const op::PdfDirichlet& op = {}) const { return call(op, sample, alpha); }
  // --- keys or values of new steps into a cache (batch, heads, capacity, dim), in place, from position[b] on
  void cache_append(const In<A>& cache, const In<A>& data, const In<A>& position) const { update(op::CacheAppend{}, cache, data, position); }  // writes data at position[b], ... of batch entry b
  // --- optimizer updates, in place: weight, gradient and states have one shape and floating dtype; with mp, weight and
  // gradient may be of 16 bits beside a float32 copy weight32 and float32 states
  void sgd_update(const In<A>& weight, const In<A>& grad, const op::SGDUpdate& op) const { update(op, weight, grad); }  // one step of gradient descent
  void mp_sgd_update(const In<A>& weight, const In<A>& grad, const In<A>& weight32, const op::MPSGDUpdate& op) const { update(op, weight, grad, weight32); }  // sgd_update in float32
  void sgd_mom_update(const In<A>& weight, const In<A>& grad, const In<A>& mom, const op::SGDMomUpdate& op) const { update(op, weight, grad, mom); }  // one step of gradient descent with momentum
  void mp_sgd_mom_update(const In<A>& weight, const In<A>& grad, const In<A>& mom, const In<A>& weight32, const op::MPSGDMomUpdate& op) const { update(op, weight, grad, mom, weight32); }  // sgd_mom_update in float32
  void nag_mom_update(const In<A>& weight, const In<A>& grad, const In<A>& mom, const op::NAGMomUpdate& op) const { update(op, weight, grad, mom); }
  void mp_nag_mom_update(const In<A>& weight, const In<A>& grad, const In<A>& mom, const In<A>& weight32, const op::MPNAGMomUpdate& op) const { update(op, weight, grad, mom, weight32); }
  void signsgd_update(const In<A>& weight, const In<A>& grad, const op::SignSGDUpdate& op) const { update(op, weight, grad); }  // one step by the sign of the gradient
  void signum_update(const In<A>& weight, const In<A>& grad, const In<A>& mom, const op::SignumUpdate& op) const { update(op, weight, grad, mom); }  // one step by the sign of the momentum
  void rmsprop_update(const In<A>& weight, const In<A>& grad, const In<A>& n, const op::RMSPropUpdate& op) const { update(op, weight, grad, n); }
  void rmspropalex_update(const In<A>& weight, const In<A>& grad, const In<A>& n, const In<A>& g, const In<A>& delta, const op::RMSPropAlexUpdate& op) const { update(op, weight, grad, n, g, delta); }
  void ftrl_update(const In<A>& weight, const In<A>& grad, const In<A>& z, const In<A>& n, const op::FtrlUpdate& op) const { update(op, weight, grad, z, n); }  // one step of FTRL-proximal
  void ftml_update(const In<A>& weight, const In<A>& grad, const In<A>& d, const In<A>& v, const In<A>& z, const op::FTMLUpdate& op) const { update(op, weight, grad, d, v, z); }
  void adam_update(const In<A>& weight, const In<A>& grad, const In<A>& mean, const In<A>& var, const op::AdamUpdate& op) const { update(op, weight, grad, mean, var); }
  void _adamw_update(const In<A>& weight, const In<A>& grad, const In<A>& mean, const In<A>& var, const In<A>& rescale_grad, const op::AdamWUpdate& op) const { update(op, weight, grad, mean, var, rescale_grad); }
  void _mp_adamw_update(const In<A>& weight, const In<A>& grad, const In<A>& mean, const In<A>& var, const In<A>& weight32, const In<A>& rescale_grad, const op::MPAdamWUpdate& op) const { update(op, weight, grad, mean, var, weight32, rescale_grad); }
  void _sparse_adagrad_update(const In<A>& weight, const In<A>& grad, const In<A>& history, const op::SparseAdagradUpdate& op) const { update(op, weight, grad, history); }
  void group_adagrad_update(const In<A>& weight, const In<A>& grad, const In<A>& history, const op::GroupAdagradUpdate& op) const { update(op, weight, grad, history); }
  A lamb_update_phase1(const In<A>& weight, const In<A>& grad, const In<A>& mean, const In<A>& var, const op::LambUpdatePhase1& op) const { return call(op, weight, grad, mean, var); }
  A mp_lamb_update_phase1(const In<A>& weight, const In<A>& grad, const In<A>& mean, const In<A>& var, const In<A>& weight32, const op::MPLambUpdatePhase1& op) const { return call(op, weight, grad, mean, var, weight32); }
  void lamb_update_phase2(const In<A>& weight, const In<A>& g, const In<A>& r1, const In<A>& r2, const op::LambUpdatePhase2& op) const { update(op, weight, g, r1, r2); }
  void mp_lamb_update_phase2(const In<A>& weight, const In<A>& g, const In<A>& r1, const In<A>& r2, const In<A>& weight32, const op::MPLambUpdatePhase2& op) const { update(op, weight, g, r1, r2, weight32); }
  // Of many weights: {weight, grad, states..., with mp weight32} for each, then what is for all
  void multi_sgd_update(std::span<const A> arrays, const op::MultiSGDUpdate& op, Site site = Site::current()) const { update_list(op, arrays, site); }
  void multi_mp_sgd_update(std::span<const A> arrays, const op::MultiMPSGDUpdate& op, Site site = Site::current()) const { update_list(op, arrays, site); }  // mp_sgd_update of each group of arrays
  void multi_sgd_mom_update(std::span<const A> arrays, const op::MultiSGDMomUpdate& op, Site site = Site::current()) const { update_list(op, arrays, site); }  // sgd_mom_update of each group of arrays
  void multi_mp_sgd_mom_update(std::span<const A> arrays, const op::MultiMPSGDMomUpdate& op, Site site = Site::current()) const { update_list(op, arrays, site); }  // mp_sgd_mom_update of each group of arrays
  void preloaded_multi_sgd_update(std::span<const A> arrays, const op::PreloadedMultiSGDUpdate& op, Site site = Site::current()) const { update_list(op, arrays, site); }
  void preloaded_multi_mp_sgd_update(std::span<const A> arrays, const op::PreloadedMultiMPSGDUpdate& op, Site site = Site::current()) const { update_list(op, arrays, site); }
  void preloaded_multi_sgd_mom_update(std::span<const A> arrays, const op::PreloadedMultiSGDMomUpdate& op, Site site = Site::current()) const { update_list(op, arrays, site); }  // multi_sgd_mom_update with rates in arrays
  void preloaded_multi_mp_sgd_mom_update(std::span<const A> arrays, const op::PreloadedMultiMPSGDMomUpdate& op, Site site = Site::current()) const { update_list(op, arrays, site); }  // multi_mp_sgd_mom_update with rates in arrays
  void _multi_adamw_update(std::span<const A> arrays, const op::MultiAdamWUpdate& op, Site site = Site::current()) const { update_list(op, arrays, site); }
  void _multi_mp_adamw_update(std::span<const A> arrays, const op::MultiMPAdamWUpdate& op, Site site = Site::current()) const { update_list(op, arrays, site); }
  void _multi_lamb_update(std::span<const A> arrays, const op::MultiLambUpdate& op, Site site = Site::current()) const { update_list(op, arrays, site); }
  void _multi_mp_lamb_update(std::span<const A> arrays, const op::MultiMPLambUpdate& op, Site site = Site::current()) const { update_list(op, arrays, site); }
  A _kaon_multi_update2(std::span<const A* const> arrays, const op::MultiUpdate2& op, Site site = Site::current()) const { return call_list(op, arrays, site); }
  A _kaon_multi_update3(std::span<const A* const> arrays, const op::MultiUpdate3& op, Site site = Site::current()) const { return call_list(op, arrays, site); }
  A _kaon_multi_update4(std::span<const A* const> arrays, const op::MultiUpdate4& op, Site site = Site::current()) const { return call_list(op, arrays, site); }
  A _kaon_multi_update5(std::span<const A* const> arrays, const op::MultiUpdate5& op, Site site = Site::current()) const { return call_list(op, arrays, site); }
  A _kaon_multi_update6(std::span<const A* const> arrays, const op::MultiUpdate6& op, Site site = Site::current()) const { return call_list(op, arrays, site); }
  A _kaon_gradient_factor(std::span<const A* const> arrays, const op::GradientFactor& op, Site site = Site::current()) const { return call_list(op, arrays, site); }
  A _kaon_loss_scale(std::span<const A* const> arrays, const op::LossScale& op, Site site = Site::current()) const { return call_list(op, arrays, site); }
  // --- many arrays: sums of squares (n,), rates of layers, 1 or 0 (1,), zeros in place, sums in place
  A multi_sum_sq(std::span<const A> arrays, op::MultiSumSq op = {}, Site site = Site::current()) const { return op.num_arrays = int(arrays.size()), call_array_list(op, arrays, site); }
  A multi_lars(const In<A>& lrs, const In<A>& weights_sum_sq, const In<A>& grads_sum_sq, const In<A>& wds, const op::MultiLars& op) const { return call(op, lrs, weights_sum_sq, grads_sum_sq, wds); }
  A all_finite(const In<A>& data, const op::AllFinite& op = {}) const { return call(op, data); }
  A multi_all_finite(std::span<const A> arrays, op::MultiAllFinite op = {}, Site site = Site::current()) const { return op.num_arrays = int(arrays.size()), call_array_list(op, arrays, site); }
  void reset_arrays(std::span<const A> arrays, op::ResetArrays op = {}, Site site = Site::current()) const { op.num_arrays = int(arrays.size()), update_arrays(op, arrays, site); }
  void _kaon_multi_add(std::span<const A> arrays, const op::MultiAdd& op = {}, Site site = Site::current()) const { update_arrays(op, arrays, site); }
  // --- values of the program, row-major, copied: nd.array({1, 2, 3}, {3, 1}), nd.array({{1, 2}, {3, 4}}),
  // nd.array(vector, shape), std::array, std::span; of one dimension unless a shape is given. float32 unless the options
  // say otherwise, int64 where the elements are 64-bit integers; a constant in a trace. ShapeError when they do not fill
  // the shape, ValueError for an integer that int64 does not hold where no dtype is given.
  A array(const ArrayValues& v) const { return array(v, Shape(v.size())); }
  A array(const ArrayValues& v, const Shape& s, const ArrayOptions& o = {}) const { return constant(v.fill(s, dtype<float>(o), device(o))); }
  A array(const ArrayRows& rows, const ArrayOptions& o = {}) const { return constant(rows.fill(dtype<float>(o), device(o))); }
  template <ops::ContiguousNumbers R> A array(const R& values, const Shape& s, const ArrayOptions& o = {}) const { return from_memory(std::data(values), std::size(values), s, o); }
  template <ops::ContiguousNumbers R> A array(const R& values, const ArrayOptions& o = {}) const { return array(values, Shape(int64_t(std::size(values))), o); }
  template <std::same_as<std::vector<bool>> R> A array(const R& values, const Shape& s, const ArrayOptions& o = {}) const { return array(std::vector<uint8_t>(values.begin(), values.end()), s, o); }
  template <std::same_as<std::vector<bool>> R> A array(const R& values, const ArrayOptions& o = {}) const { return array(values, Shape(int64_t(values.size())), o); }
  // C arrays by name; in braces with more rows than ArrayRows takes.
  template <class T, size_t N> A array(T (&v)[N], const Shape& s = Shape(N), const ArrayOptions& o = {}) const { return from_memory(v, N, s, o); }
  template <class T, size_t N, size_t M> A array(T (&v)[N][M], const ArrayOptions& o = {}) const { return from_memory(&v[0][0], N * M, Shape(N, M), o); }
  template <class T, size_t N, size_t M> requires(N > ArrayRows::max_rows) A array(const T (&v)[N][M], const ArrayOptions& o = {}) const { return from_memory(&v[0][0], N * M, Shape(N, M), o); }
  // clang-format on
  // A parameter as this kind of array: F(weight).
  template <class P>
    requires requires(const P& p) { p.template as<A>(); }
  A operator()(const P& parameter) const { return parameter.template as<A>(); }

 private:
  using LayerFunctions<A>::call_array_list;
  using LayerFunctions<A>::call_list;
  using LayerFunctions<A>::call_list_many;
  using LayerFunctions<A>::call_many;
  using LayerFunctions<A>::name_;
  static Device device(const ArrayOptions& o) { return o.device.value_or(engine::thread_context().device); }
  A constant(NDArray values) const { return A::from_values(std::move(values), name_); }
  template <class T>
  static DType dtype(const ArrayOptions& o) {
    return o.dtype.value_or(std::integral<T> && sizeof(T) == 8 ? DType::int64 : DType::float32);
  }
  template <class T>
  A from_memory(const T* values, size_t n, const Shape& shape, const ArrayOptions& o) const {
    if (!o.dtype) ops::expect_int64(std::span(values, n));
    if constexpr (ops::is_valid(dtype_of<T>)) {
      return constant(NDArray::from(values, n, shape, dtype<T>(o), device(o)));
    } else {  // long long and the like, by way of a type that holds them
      const std::vector<ops::WiderNumber<T>> wider(values, values + n);
      return constant(NDArray::from(wider.data(), n, shape, dtype<T>(o), device(o)));
    }
  }
  template <class Op>  // no array inputs
  A create(const Op& op, const std::source_location& site) const {
    return call_list(op, {}, site);
  }
  template <class Op, class... Ins>  // no outputs: inputs are updated in place
  void update(const Op& op, const In<A>& first, const Ins&... rest) const {
    const A* inputs[] = {&first.array(), &rest.array()...};
    A::apply(Op::def, &op, inputs, std::span<A>(), first.site(), name_);
  }
  template <class Op>
  void update_arrays(const Op& op, std::span<const A> arrays, const Site& site) const {
    std::vector<const A*> inputs;
    inputs.reserve(arrays.size());
    for (const A& a : arrays) inputs.push_back(&a);
    A::apply(Op::def, &op, inputs, std::span<A>(), site, name_);
  }
  template <class Op>  // as many weights as there are arrays for
  void update_list(Op op, std::span<const A> arrays, const Site& site) const {
    const int weights = (int(arrays.size()) - Op::traits.ungrouped) / Op::traits.mutates_period;
    if constexpr (requires { op.num_weights; }) op.num_weights = weights;
    if constexpr (requires { op.num_tensors; }) op.num_tensors = weights;
    update_arrays(op, arrays, site);
  }
};

// Functions on NDArrays, and waitall.
struct NDArrayFunctions : Functions<NDArray> {
  // Blocks until the current engine has run all that was pushed. Throws as Engine::wait_all does.
  void waitall() const { Engine::current().wait_all(); }
};

inline constexpr NDArrayFunctions nd{};  // nd.relu(x); the same for Symbols is `sym`

}  // namespace kaon
