"""Deliberate faults: a table of mistakes, and the proof that the tests catch each of them.

`python -m tests.deliberate_faults` copies the sources, makes one mistake at a time, runs the tests
named beside it and expects them to fail. `--table FILE` writes a table of what was caught by which
test.
A fault that survives means that a test is missing: add the test, never drop the fault.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

PROJECT = Path(__file__).parents[1]
SOURCES = PROJECT / "src"


@dataclass(frozen=True)
class Fault:
    """A mistake: in `file`, the text `before` (which occurs once) becomes `after`.

    Attributes:
        file: Below src/fwnet.
        before: What is right.
        after: What is wrong.
        tests: Arguments of pytest: the tests that must notice.
    """

    file: str
    before: str
    after: str
    tests: str


FAULTS = [
    Fault(
        "kernels/reference.py",
        "(weight * logs.exp()).sum(",
        "weight.sum(",
        "tests/kernels/test_reference.py::TestReference::test_forward_agrees_with_80_digits",
    ),
    Fault(
        "kernels/reference.py",
        "beta = -rows.log_rho.expm1()",
        "beta = rows.log_rho.expm1()",
        "tests/kernels/test_reference.py::TestReference::test_gradients_agree_with_80_digits",
    ),
    Fault(
        "kernels/reference.py",
        "torch.where((ratio > 0.5) & (ratio < 2), near, far)",
        "far",
        "tests/kernels/test_reference.py::test_log_ratio_keeps_its_digits_across_the_range",
    ),
    Fault(
        "kernels/reference.py",
        "torch.where(top > 0, at_top, grad_u)",
        "grad_u",
        (
            "tests/kernels/test_reference.py::test_the_gradient_at_the_largest_entry_keeps_its_digits"
        ),
    ),
    Fault(
        "kernels/reference.py",
        "values.radius * factor) * root * grad * root",
        "values.radius * factor) / rows.peak * root * grad * root * rows.peak",
        (
            "tests/kernels/test_reference.py::TestReference::test_slopes_at_very_large_p_keep_their_digits"
        ),
    ),
    Fault(
        "kernels/blocked.py",
        "vector_norm(square, dim=1, keepdim=True).sqrt_()",
        "vector_norm(square, dim=1, keepdim=True)",
        "tests/kernels/test_blocked.py::TestBlocked::test_forward_agrees_with_80_digits",
    ),
    Fault(
        "kernels/blocked.py",
        "CUBIC_NORMS = (1e-8, 1e8)",
        "CUBIC_NORMS = (0, 1e8)",
        "tests/kernels/test_blocked.py::TestBlocked::test_forward_agrees_with_80_digits",
    ),
    Fault(
        "restoration/denoising.py",
        "sigma *= self.strength",
        "sigma += 0 * self.strength",
        "tests/imaging/test_denoiser.py tests/test_denoise.py",
    ),
    Fault(
        "restoration/upscaling.py",
        'jpeg = lossy if asked.get("jpeg") is None else asked["jpeg"]',
        'jpeg = asked.get("jpeg")',
        "tests/test_upscale.py::TestUpscale::test_jpeg_files_have_their_own_networks",
    ),
    Fault(
        "imaging/one_file.py",
        "sigma = restorer.noise_level(read.pixels)",
        "sigma = None",
        "tests/test_denoise.py::TestDenoise::test_a_preview_shows_several_strengths",
    ),
    Fault(
        "kernels/blocked.py",
        "ORDINARY_K = (1.0, 16.0)",
        "ORDINARY_K = (0.1, 16.0)",
        "tests/kernels/test_blocked.py::TestBlocked::test_forward_agrees_with_80_digits",
    ),
    Fault(
        "kernels/blocked.py",
        "by_z if z is None else grad * (1 - step)",
        "by_z if z is None else grad * step",
        "tests/kernels/test_blocked.py::TestBlocked::test_frank_wolfe_step",
    ),
    Fault(
        "kernels/blocked.py",
        "range(0, layout.num_rows // layout.inner, images)",
        "range(0, layout.num_rows // layout.inner, images + 1)",
        (
            "tests/kernels/test_blocked.py::TestSmallBlocks "
            "tests/kernels/test_blocked.py::test_blocks_cover_an_image_exactly_once"
        ),
    ),
    Fault(
        "kernels/triton_kernels.py",
        "return (k >= 1.25) & (k <= 4.0)",
        "return (k >= 0.25) & (k <= 4.0)",
        "tests/kernels/test_triton.py::TestTriton::test_gradients_agree_with_80_digits",
    ),
    Fault(
        "kernels/triton_kernels.py",
        "_finite(slope * rho * inv_total",
        "_finite(slope * inv_total",
        "tests/kernels/test_triton.py::TestTriton::test_gradients_agree_with_80_digits",
    ),
    Fault(
        "kernels/autograd.py",
        "None if b is None else by_u,",
        "None,",
        "tests/test_functional.py::test_frank_wolfe_step_gradcheck",
    ),
    Fault(
        "functional.py",
        "torch.where((peak > 0) & peak.isfinite(), peak, 1.0).detach()",
        "torch.ones_like(peak)",
        "tests/sets/test_lp_ball.py::test_gauge_does_not_overflow",
    ),
    Fault(
        "functional.py",
        '_is_readable("p", p) and not p >= 1',
        '_is_readable("p", p) and p < 1',
        "tests/test_functional.py::test_arguments_that_cannot_be_right",
    ),
    Fault(
        "functional.py",
        "return math.inf if p == 1 else 1 + 1 / (p - 1)",
        "return math.inf if p == 1 else p / (p - 1)",
        "tests/test_functional.py::test_dual_exponent",
    ),
    Fault(
        "sets/projection.py",
        "(g - n * kappa) * inv_h",
        "g * inv_h - n * kappa",
        "tests/sets/test_lp_ball.py::test_projection_gradcheck",
    ),
    Fault(
        "sets/projection.py",
        "outside = norm > radius / peak",
        "outside = norm > radius",
        (
            "tests/sets/test_lp_ball.py::test_projection_commutes_with_the_unit_of_length "
            "tests/sets/test_lp_ball.py::TestLpBall::test_projection_leaves_feasible_points_alone"
        ),
    ),
    Fault(
        "sets/convex_set.py",
        "return gauge <= 1 + _roundings(gauge, z, tol)",
        "return gauge <= 1",
        (
            "tests/sets/test_lp_ball.py::test_points_on_and_just_outside_the_border "
            "tests/sets/test_lp_ball.py::TestLpBall::test_contains_follows_the_gauge"
        ),
    ),
    Fault(
        "sets/lp_ball.py",
        "torch.where(radius > 0, radius, torch.nan).to(z.device)",
        "radius.to(z.device)",
        "tests/sets/test_lp_ball.py::test_invalid_tensors_are_refused_or_give_nan",
    ),
    Fault(
        "nn/exponent.py",
        "((theta <= ctx.low) & (grad > 0)) | ((theta >= ctx.high) & (grad < 0))",
        "((theta <= ctx.low) & (grad < 0)) | ((theta >= ctx.high) & (grad > 0))",
        "tests/nn/test_pool.py::test_bounds_hold_and_let_p_return",
    ),
    Fault(
        "nn/step_sizes.py",
        "[2 / (t + 2) for t in range(num_layers)]",
        "[1 / (t + 1) for t in range(num_layers)]",
        (
            "tests/models/test_models.py::test_untrained_with_fixed_steps_it_is_the_frank_wolfe_algorithm"
        ),
    ),
    Fault(
        "nn/unrolled.py",
        "matrices[t - 1]",
        "matrices[-t]",
        "tests/models/test_models.py::test_layers_use_their_matrices_in_order",
    ),
    Fault(
        "nn/fw_cell.py",
        "z + gamma * (s - z)",
        "s + gamma * (z - s)",
        "tests/nn/test_fw_cell.py",
    ),
    Fault(
        "metrics.py",
        "(image.clamp(0, 1) - clean)",
        "(image - clean)",
        "tests/test_metrics.py",
    ),
    Fault(
        "metrics.py",
        "(255 * image).round().clamp(0, 255)",
        "(255 * image).clamp(0, 255)",
        "tests/test_metrics.py",
    ),
    Fault(
        "resize.py",
        "2 * length - 1 - places",
        "2 * length - 2 - places",
        (
            "tests/test_resize.py::test_beyond_its_border_an_image_goes_on_mirrored "
            "tests/test_resize.py::test_it_is_what_torch_does_with_a_mirrored_border"
        ),
    ),
    Fault(
        "resize.py",
        "middle = (scale - 1) / 2",
        "middle = scale / 2",
        (
            "tests/test_resize.py::test_ramps_stay_and_parabolas_when_enlarged "
            "tests/test_resize.py::test_it_is_what_torch_does_with_a_mirrored_border"
        ),
    ),
    Fault(
        "files.py",
        "                os.fsync(file.fileno())\n",
        "",
        "tests/test_files.py",
    ),
    Fault(
        "files.py",
        "if replace:\n                temporary.replace(path)",
        "if replace:\n                path.write_bytes(temporary.read_bytes())",
        "tests/test_files.py",
    ),
    Fault(
        "checks.py",
        "if number > most",
        "if False",
        "tests/test_checks.py::test_sizes_beyond_any_memory_are_refused_before_any_is_taken",
    ),
    Fault(
        "checks.py",
        "abs(int(value)) > LARGEST_INTEGER",
        "False",
        "tests/test_checks.py::test_numbers_that_torch_cannot_hold_are_refused",
    ),
    Fault(
        "checks.py",
        "if isinstance(value, bool) or number < least",
        "if number < least",
        "tests/test_checks.py",
    ),
    Fault(
        "solvers/blocks.py",
        "torch.where(optimal & shortest,",
        "torch.where(optimal,",
        (
            "tests/solvers/test_certified.py::TestLeastNorm::test_an_optimal_code_that_is_longer_says_so"
        ),
    ),
    Fault(
        "solvers/blocks.py",
        "Progress(progress.step, sum(done), count, seconds)",
        "Progress(progress.step, progress.rows_done, count, seconds)",
        "tests/solvers/test_certified.py::test_the_callback_counts_the_rows_of_all_blocks",
    ),
    Fault(
        "solvers/problem.py",
        "t = torch.where(t * dual_norm > penalty, penalty / _positive(dual_norm), t)",
        "t = t",
        (
            "tests/solvers/test_penalized.py::test_certified_and_unbeaten "
            "tests/solvers/test_penalized.py::test_limits_are_honest"
        ),
    ),
    Fault(
        "solvers/problem.py",
        "if not self._all_is_inside(x) and not self._nothing_was_dropped():",
        "if self._all_is_inside(x):",
        (
            "tests/solvers/test_certified.py::TestCertificate::test_a_singular_value_taken_for_zero_is_not_forgotten"
        ),
    ),
    Fault(
        "solvers/problem.py",
        "margin_of_rounding = 2 * torch.finfo(dtype).eps",
        "margin_of_rounding = 0.0",
        (
            "tests/solvers/test_certified.py::TestCertificate "
            "tests/solvers/test_certified.py::test_float32_is_certified_at_its_own_tolerance"
        ),
    ),
    Fault(
        "solvers/whitened.py",
        "w.mul_(total.pow(2 / p - 1))",
        "w.mul_(total.pow(1 - 2 / p))",
        "tests/solvers/test_certified.py::test_certified_at_every_p",
    ),
    Fault(
        "solvers/interior_point.py",
        "together = torch.minimum(primal, dual)",
        "together = torch.maximum(primal, dual)",
        (
            "tests/solvers/test_homotopy.py::test_codes_are_those_of_the_interior_point_method "
            "tests/solvers/test_active_set.py::test_codes_are_those_of_the_interior_point_method"
        ),
    ),
    Fault(
        "solvers/primal_newton.py",
        "- excess) - change * normal",
        "- excess) + change * normal",
        "tests/solvers/test_newton.py",
    ),
    Fault(
        "solvers/primal_newton.py",
        "g = torch.where(binds, mean / (mean + stiff), 0.0)",
        "g = torch.where(binds, mean / (mean + stiff), 1.0)",
        "tests/solvers/test_newton.py",
    ),
    Fault(
        "solvers/auto.py",
        "return None if self.careful else dataclasses.replace(self, careful=True)",
        "return None",
        "tests/solvers/test_homotopy.py tests/solvers/test_newton.py",
    ),
    Fault(
        "solvers/primal_newton.py",
        "slope = (s - goal_s).mul_(way)",
        "slope = s.mul(way)",
        "tests/solvers/test_newton.py",
    ),
    Fault(
        "solvers/groups.py",
        ".clamp(min=tiny)).pow(p - 1)",
        ".clamp(min=tiny)).pow(p)",
        "tests/solvers/test_groups.py",
    ),
    Fault(
        "hardware.py",
        "limit(limits=1)",
        "limit(limits=2)",
        "tests/solvers/test_certified.py::TestBlocksSideBySide",
    ),
    Fault(
        "solvers/threads.py",
        "one_thread() if matrix.numel() <= SMALL else nullcontext()",
        "nullcontext()",
        "tests/solvers/test_certified.py::TestBlocksSideBySide",
    ),
    Fault(
        "solvers/frank_wolfe.py",
        "2 / (line.index + 2)",
        "2 / (line.index + 1)",
        (
            "tests/solvers/test_methods.py::test_frank_wolfe_is_the_paper_s_iteration "
            "tests/solvers/test_methods.py::test_step_rules"
        ),
    ),
    Fault(
        "solvers/frank_wolfe.py",
        "limit = state.shares.gather(-1, worst)",
        "limit = 1.0",
        "tests/solvers/test_methods.py::TestPairwise",
    ),
    Fault(
        "solvers/penalized.py",
        "z = inner.code * radius",
        "z = inner.code",
        "tests/solvers/test_penalized.py::test_is_the_constrained_solution_of_its_own_norm",
    ),
    Fault(
        "solvers/implicit.py",
        "+ v.T @ a - image.T @ z",
        "+ v.T @ a + image.T @ z",
        "tests/solvers/test_implicit.py::test_gradcheck",
    ),
    Fault(
        "solvers/implicit.py",
        "usable = solved & (code != 0).any(-1)",
        "usable = (code != 0).any(-1)",
        "tests/solvers/test_implicit.py::test_codes_that_are_not_optimal_have_no_gradient",
    ),
    Fault(
        "solvers/omp.py",
        ".eps * gram.diagonal().max() * squares",
        ".eps * gram.diagonal().max() * torch.ones_like(squares)",
        "tests/solvers/test_omp.py::test_scale_makes_no_difference",
    ),
    Fault(
        "solvers/omp.py",
        "noise**2 * n",
        "noise**2",
        "tests/solvers/test_omp.py::test_stops_at_the_noise",
    ),
    Fault(
        "solvers/ksvd.py",
        "    residual += code[:, index] @ atoms[index]\n",
        "",
        (
            "tests/solvers/test_ksvd.py::test_what_a_replaced_atom_explained_is_an_error_of_its_round"
        ),
    ),
    Fault(
        "solvers/alternation.py",
        "kept = (1 - 1 / step) ** FORGETTING",
        "kept = (1 - 1 / step) ** (1 / FORGETTING)",
        "tests/solvers/test_alternation.py",
    ),
    Fault(
        "solvers/loop.py",
        "state, rows, waiting = state.select(kept), rows[kept], waiting[kept]",
        "state, waiting = state.select(kept), waiting[kept]",
        "tests/solvers/test_certified.py::test_rows_do_not_depend_on_their_company",
    ),
    Fault(
        "models/lista.py",
        "torch.eye(self.num_atoms, device=gram.device) - gram",
        "gram - torch.eye(self.num_atoms, device=gram.device)",
        "tests/models/test_models.py::test_untrained_lista_is_ista",
    ),
    Fault(
        "models/lcod.py",
        "change.abs().argmax(",
        "change.argmax(",
        "tests/models/test_models.py::test_untrained_lcod_is_coordinate_descent",
    ),
    Fault(
        "models/conv_coding_networks.py",
        "atoms.transpose(0, 1).flip(2, 3)",
        "atoms.transpose(0, 1)",
        (
            "tests/models/test_image_models.py::test_from_a_dictionary_the_first_layer_correlates_and_the_last_rebuilds"
        ),
    ),
    Fault(
        "models/conv_coding_networks.py",
        "[kernels / copies] * copies",
        "[kernels] * copies",
        "tests/models/test_image_models.py::TestConvFWNet::test_a_network_adopts_one_for_less",
    ),
    Fault(
        "models/plain_networks.py",
        "if index and len(self.norms):",
        "if len(self.norms):",
        "tests/models/test_image_models.py::test_dncnn_written_out",
    ),
    Fault(
        "models/image_model.py",
        "max(radius, REACH) if self.residual and self.scale > 1 else radius",
        "radius",
        (
            "tests/models/test_image_models.py::TestConvFWNetSubPixel::test_enlargement_reaches_farther_than_small_kernels"
        ),
    ),
    Fault(
        "models/model_files.py",
        "write_whole(path, safetensors.torch.save(tensors, metadata))",
        "path.write_bytes(safetensors.torch.save(tensors, metadata))",
        "tests/models/test_models.py::test_saving_leaves_the_old_file_or_the_new_one",
    ),
    Fault(
        "data/image_sets.py",
        "(heights - size + 1)",
        "(heights - size)",
        "tests/data/test_images.py::test_all_images_places_and_symmetries_are_equally_likely",
    ),
    Fault(
        "data/images.py",
        "total += unit // 2",
        "total += 0",
        "tests/data/test_images.py::TestGray",
    ),
    Fault(
        "data/pairs.py",
        " if not theirs[key].samefile(ours[key])",
        "",
        "tests/data/test_pairs.py::TestNames::test_both_in_one_folder",
    ),
    Fault(
        "data/pairs.py",
        "first.conj() * second",
        "first * second.conj()",
        "tests/data/test_pairs.py::TestShifts::test_they_are_found",
    ),
    Fault(
        "data/synthetic.py",
        "math.sqrt(noise_variance) * noise",
        "noise_variance * noise",
        "tests/data/test_synthetic.py::test_codes_are_projections_and_signals_are_made_of_them",
    ),
    Fault(
        "data/berkeley.py",
        "if path.stem != HAS_WOMAN",
        "if path.stem",
        "tests/data/test_berkeley.py::test_files_by_their_folders",
    ),
    Fault(
        "data/digits.py",
        "order[num_validation:]",
        "order[num_validation - 1 :]",
        ("tests/data/test_digits.py::test_a_split_looks_at_training_images_alone_and_at_each_once"),
    ),
    Fault(
        "data/folders.py",
        'filter="data"',
        'filter="fully_trusted"',
        "tests/data/test_berkeley.py::TestArchive",
    ),
    Fault(
        "zoo/shelf.py",
        "if digest != card.sha256:",
        "if len(digest) != len(card.sha256):",
        "tests/zoo/test_zoo.py::test_damaged_weights_are_not_loaded",
    ),
    Fault(
        "zoo/shipping.py",
        "tensor.ndim >= 2",
        "tensor.ndim >= 1",
        (
            "tests/zoo/test_zoo.py::test_kernels_are_halved_and_a_float32_model_comes_back "
            "tests/zoo/test_zoo.py::test_what_is_fixed_keeps_all_its_digits"
        ),
    ),
    Fault(
        "restoration/denoising.py",
        'keyed_generator(seed, "training noise", step',
        'keyed_generator(seed, "noise", step',
        "tests/training/test_denoising.py::TestBatches",
    ),
    Fault(
        "restoration/denoising.py",
        "clean, seen = clean.tensor_split(2, 1)",
        "seen, clean = clean.tensor_split(2, 1)",
        "tests/training/test_pairs.py::TestTask",
    ),
    Fault(
        "restoration/denoising.py",
        "self.high) - 0.5) / scale",
        "self.high) - 0.5) * scale",
        "tests/imaging/test_denoiser.py::test_noise_beyond_what_networks_know_is_scaled_down",
    ),
    Fault(
        "restoration/upscaling.py",
        "return -(-radius // self.scale) + REACH",
        "return radius // self.scale + REACH",
        "tests/imaging/test_upscaler.py::test_tiled_is_whole",
    ),
    Fault(
        "restoration/upscaling.py",
        "shave(image, self.scale)",
        "shave(image, 0)",
        "tests/training/test_super_resolution.py::TestValidation",
    ),
    Fault(
        "restoration/recipe.py",
        "rate / 2 if has_start else rate",
        "rate",
        "tests/training/test_train_denoiser.py::TestRecipe",
    ),
    Fault(
        "imaging/tiling.py",
        "-(-(inner.stop + halo) // multiple)",
        "-(-(inner.stop + halo - 1) // multiple)",
        "tests/imaging/test_tiling.py",
    ),
    Fault(
        "imaging/tiling.py",
        "made = (made * white).round()",
        "made = made * white",
        (
            "tests/imaging/test_tiling.py::test_whole_is_the_network_itself "
            "tests/imaging/test_tiling.py::test_eight_bits_are_the_same_but_for_rounding"
        ),
    ),
    Fault(
        "imaging/pixels.py",
        "np.rint(as_unit_range(old).clip(0, 1) * white)",
        "np.rint(as_unit_range(old) * white)",
        "tests/imaging/test_image_files.py::test_values_beyond_the_range_are_clipped",
    ),
    Fault(
        "imaging/image_files.py",
        "pixels.pillow() if kind.exif else about.turned(pixels.pillow())",
        "pixels.pillow()",
        "tests/imaging/test_image_files.py::test_viewers_show_the_same_side_up",
    ),
    Fault(
        "imaging/sixteen_bits.py",
        "zlib.crc32(name + content)",
        "zlib.crc32(content)",
        "tests/imaging/test_image_files.py::test_metadata_of_sixteen_bits",
    ),
    Fault(
        "imaging/sixteen_bits.py",
        "array[..., 0] = white - array[..., 0]",
        "array = white - array",
        "tests/imaging/test_image_files.py::test_where_zero_is_white_alpha_is_what_it_is",
    ),
    Fault(
        "imaging/metadata.py",
        "size = width if tag in WIDTHS else height",
        "size = height if tag in WIDTHS else width",
        "tests/imaging/test_metadata.py",
    ),
    Fault(
        "imaging/metadata.py",
        "step = 2 if kind == RATIONAL else 1",
        "step = 1",
        "tests/imaging/test_metadata.py",
    ),
    Fault(
        "imaging/noise.py",
        "values, directions = values[1:], directions[:, 1:]",
        "values, directions = values[:], directions[:, :]",
        "tests/imaging/test_noise.py::test_within_a_tenth_or_one_level",
    ),
    Fault(
        "imaging/noise.py",
        "np.median(np.abs(differences)) / MEDIAN_OF_NORMAL",
        "np.median(np.abs(differences))",
        "tests/imaging/test_noise.py::test_tiny_images",
    ),
    Fault(
        "imaging/transparency.py",
        "hidden = alpha <= 0",
        "hidden = alpha < 128",
        "tests/imaging/test_transparency.py",
    ),
    Fault(
        "imaging/file_lists.py",
        'if not name.startswith(".") and resolved(here / name) != results',
        'if not name.startswith(".")',
        "tests/imaging/test_file_lists.py",
    ),
    Fault(
        "imaging/file_lists.py",
        "wanted[resolved(job.place)] > 1 and",
        "wanted[resolved(job.place)] > 2 and",
        "tests/imaging/test_file_lists.py",
    ),
    Fault(
        "imaging/image_files.py",
        "text if count == len(pages) else None",
        "text",
        "tests/imaging/test_pages.py",
    ),
    Fault(
        "imaging/sixteen_bits.py",
        "contiguous=text is not None",
        "contiguous=False",
        "tests/imaging/test_pages.py",
    ),
    Fault(
        "imaging/color.py",
        "return (16 + 219 * gray) / 255",
        "return (16 + 224 * gray) / 255",
        "tests/imaging/test_color.py",
    ),
    Fault(
        "imaging/restorer.py",
        "TrainedModel(copy.deepcopy(model),",
        "TrainedModel(model,",
        "tests/imaging/test_denoiser.py::test_the_network_is_left_as_it_was",
    ),
    Fault(
        "training/loop.py",
        "figure <= self.position.best",
        "figure < self.position.best",
        "tests/training/test_loop.py::test_of_equally_good_epochs_the_last_is_kept",
    ),
    Fault(
        "training/loop.py",
        "max(1 - self.config.average, 1 / self.position.step)",
        "1 - self.config.average",
        "tests/training/test_loop.py::test_the_mean_of_the_weights_is_kept_and_validated",
    ),
    Fault(
        "training/loop.py",
        "        self.loss_sum.fill_(self.position.loss_sum)\n",
        "",
        "tests/training/test_loop.py::test_a_killed_training_ends_with_the_same_weights",
    ),
    Fault(
        "training/checkpoint.py",
        '        tensors |= {f"mean.{name}": value for name, value in kept.mean.items()}\n',
        "",
        "tests/training/test_loop.py::test_a_mean_survives_an_interruption",
    ),
    Fault(
        "training/checkpoint.py",
        'record["step"] <= until_step',
        'record["step"] < until_step',
        (
            "tests/training/test_loop.py::test_a_killed_training_ends_with_the_same_weights "
            "tests/training/test_loop.py::test_a_finished_training_is_not_repeated"
        ),
    ),
    Fault(
        "training/steps.py",
        '"weight_decay": 0.0}',
        '"weight_decay": config.weight_decay}',
        "tests/training/test_loop.py::test_decay_is_on_matrices_alone",
    ),
    Fault(
        "training/steps.py",
        "        torch.set_float32_matmul_precision(before[0])\n",
        "",
        "tests/training/test_steps.py",
    ),
    Fault(
        "training/task.py",
        "x.detach() + self.adversarial_radius * normalize",
        "x.detach() - self.adversarial_radius * normalize",
        "tests/training/test_loop.py::TestClassification",
    ),
    Fault(
        "training/config.py",
        "sum(done >= d for d in self.decay_at)",
        "sum(done > d for d in self.decay_at)",
        "tests/training/test_config.py",
    ),
    Fault(
        "training/steps.py",
        "        norm.momentum = None  # the plain mean of all batches\n",
        "",
        "tests/training/test_denoising.py::TestNorms",
    ),
    Fault(
        "training/learning_images.py",
        "min(NUM_HELD, max(1, len(images) // 10))",
        "max(1, len(images) // 10)",
        "tests/training/test_learning_images.py::TestFolders::test_a_dozen_of_many",
    ),
    Fault(
        "coding/encode_file.py",
        "first_bad = done + int(bad[0])",
        "first_bad = int(bad[0])",
        "tests/coding/test_encode_file.py::test_a_row_that_is_not_finite_is_named",
    ),
    Fault(
        "coding/encode_file.py",
        "~np.isfinite(shard).all(axis=1)",
        "np.isnan(shard).any(axis=1)",
        "tests/coding/test_encode_file.py::test_a_row_that_is_not_finite_is_named",
    ),
    Fault(
        "coding/parts_folder.py",
        "                os.fsync(file.fileno())\n",
        "",
        "tests/coding/test_encode_file.py::test_rows_are_on_the_disk_before_the_manifest_counts_them",
    ),
    Fault(
        "coding/parts_folder.py",
        'and self._read()["rows_done"] == self.num_rows',
        "",
        "tests/coding/test_encode_file.py::test_an_output_is_not_overwritten_unasked",
    ),
    Fault(
        "coding/encode_folder.py",
        "for one in ranges if one.name not in known",
        "for one in ranges",
        "tests/coding/test_encode_folder.py::test_a_stopped_run_continues_and_repeats_nothing[1]",
    ),
    Fault(
        "coding/codes_folder.py",
        "            self.store.remove(name)\n",
        "            pass\n",
        "tests/coding/test_encode_folder.py::test_force_removes_what_an_earlier_run_wrote",
    ),
    Fault(
        "coding/encode_folder.py",
        "        if str(store) in taken:\n",
        "        if store == folder.store and str(store) in taken:\n",
        "tests/coding/test_encode_folder.py::test_certificates_take_the_place_of_nothing",
    ),
    Fault(
        "stores.py",
        "if is_ours and TEMPORARY_NAME.fullmatch(PurePosixPath(name).name):",
        "if False:",
        (
            "tests/coding/test_encode_folder.py::test_a_range_that_was_killed_while_it_was_written_is_done_again"
        ),
    ),
    Fault(
        "coding/parquet_files.py",
        "start -= sum(sizes[: groups[0]]) if groups else 0",
        "start -= 0",
        "tests/coding/test_encode_folder.py::test_columns_are_chosen_and_kept",
    ),
    Fault(
        "coding/row_coders.py",
        "some, records[good] = self.code(rows[good], lambda _: None)",
        "some, records[:] = self.code(np.nan_to_num(rows)[good], lambda _: None)",
        "tests/coding/test_encode_folder.py::test_bad_rows_are_counted_and_have_no_code",
    ),
    Fault(
        "coding/row_coders.py",
        "most = max(most, step.rows_done)",
        "most = step.rows_done",
        "tests/coding/test_encode_file.py::test_progress_keeps_the_most_rows_that_were_done",
    ),
    Fault(
        "coding/chunks.py",
        "return max(1, CHUNK_ENTRIES // max(1, num_features + num_components))",
        "return max(1, CHUNK_ENTRIES // max(1, num_features))",
        "tests/coding/test_encode_file.py",
    ),
    Fault(
        "coding/code_transformer.py",
        "        counts.update(solution.status_code.tolist())\n",
        "",
        "tests/coding/test_lp_coder.py::test_uncertified_samples_are_told",
    ),
    Fault(
        "coding/dictionary_learning.py",
        "if before - error <= self.tol * error:",
        "if before - error <= self.tol:",
        (
            "tests/coding/test_dictionary_learning.py::test_the_unit_of_the_samples_does_not_decide_when_it_stops"
        ),
    ),
    Fault(
        "coding/ball_search.py",
        "weights=~hidden",
        "weights=hidden",
        (
            "tests/coding/test_dictionary_learning.py::TestUnknownExponent::test_reconstruction_never_loses_by_a_larger_p_but_prediction_does"
        ),
    ),
    Fault(
        "coding/ball_search.py",
        "spread.index(min(spread))",
        "spread.index(max(spread))",
        "tests/coding/test_ball_search.py::test_with_hardly_any_noise_the_narrow_minimum_is_found",
    ),
    Fault(
        "coding/ball_search.py",
        "if excess >= 1:",
        "if excess >= 0.1:",
        "tests/coding/test_ball_search.py",
    ),
    Fault(
        "coding/learned_ball.py",
        "if learned.error >= learned.variance:",
        "if learned.error >= 2 * learned.variance:",
        "tests/coding/test_ball_search.py",
    ),
    Fault(
        "coding/exponent_search.py",
        "if self.radius is not None:",
        "if self.radius is None:",
        "tests/coding/test_dictionary_learning.py::TestUnknownExponent",
    ),
    Fault(
        "coding/structured_codes.py",
        "[-1] * missing",
        "[label] * missing",
        (
            "tests/coding/test_network_estimators.py::TestStructuredCodes::test_a_class_of_few_samples_gets_random_atoms_too"
        ),
    ),
    Fault(
        "experiments/claims.py",
        "0.975",
        "0.95",
        "tests/experiments/test_claims.py::test_the_test_has_two_sides",
    ),
    Fault(
        "experiments/claims.py",
        "else all(found)",
        "else any(found)",
        "tests/experiments/test_claims.py",
    ),
    Fault(
        "experiments/study.py",
        "if loss is not None and math.isfinite(loss) else math.inf",
        "if loss is not None else 0.0",
        "tests/experiments/test_study.py::test_a_grid_is_tried_and_noted",
    ),
    Fault(
        "experiments/runs.py",
        'if text and not text.endswith("\\n"):',
        "if not text:",
        "tests/experiments/test_runs.py::test_finished_jobs_survive_a_kill",
    ),
    Fault(
        "experiments/page.py",
        'f" ({row.paper:g})"',
        'f" ({row.mean:g})"',
        "tests/experiments/test_experiments.py::test_the_page_is_made_of_the_results",
    ),
    Fault(
        "experiments/experiment.py",
        "statistics.stdev(values)",
        "statistics.pstdev(values)",
        "tests/experiments/test_experiments.py::test_the_spread_is_that_of_a_sample",
    ),
    Fault(
        "cli/images.py",
        "if num_failed:",
        "if num_failed and not num_done:",
        "tests/test_denoise.py::TestDenoise::test_one_bad_file_does_not_keep_the_others",
    ),
    Fault(
        "cli/command.py",
        "raise typer.Exit(130) from error",
        "raise typer.Exit(0) from error",
        "tests/test_encode.py::test_ctrl_c_says_how_to_continue",
    ),
    Fault(
        "cli/command.py",
        "        raise typer.Exit(2) from error\n    except (MemoryError",
        "        raise typer.Exit(1) from error\n    except (MemoryError",
        "tests/zoo/test_zoo.py::test_an_unknown_model_is_one_line_and_exit_code_2",
    ),
    Fault(
        "models/image_model.py",
        "radius = self.reduction * (radius + 1) - 1",
        "radius = self.reduction * radius",
        "tests/models/test_image_models.py::TestDnCNNAtHalfResolution",
    ),
    Fault(
        "models/image_model.py",
        ".clamp(max=x.shape[axis] - 1)",
        " % x.shape[axis]",
        "tests/models/test_image_models.py",
    ),
    Fault(
        "imaging/restorer.py",
        "multiple=self.model.reduction",
        "multiple=1",
        "tests/imaging/test_denoiser.py",
    ),
    Fault(
        "restoration/jpeg.py",
        "luma = _compressed(luma - 128, quality, STEPS, corner)",
        "luma = _compressed(luma - 128, quality, COLOR_STEPS, corner)",
        "tests/restoration/test_jpeg.py::test_color_agrees_with_a_program",
    ),
    Fault(
        "restoration/clipping.py",
        "return pairs(sums, REACH).sub_(x)",
        "return pairs(sums, REACH)",
        "tests/restoration/test_clipping.py",
    ),
    Fault(
        "restoration/clipping.py",
        "dark = denoised * _share_of_mean(noise / denoised.clamp(min=1e-6))",
        "dark = denoised",
        "tests/restoration/test_clipping.py",
    ),
    Fault(
        "restoration/shots.py",
        "kept = variance / (variance + strength * noise)",
        "kept = variance / (variance + variance)",
        "tests/restoration/test_shots.py",
    ),
    Fault(
        "restoration/shots.py",
        "return CELL * avg_pool2d(noise, CELL)",
        "return avg_pool2d(noise, CELL)",
        "tests/restoration/test_shots.py::test_the_effective_level_of_white_noise_is_its_deviation",
    ),
    Fault(
        "restoration/shots.py",
        "Shots(seen, torch.where(without, seen, wanted), sigma",
        "Shots(seen, wanted, sigma",
        "tests/restoration/test_shots.py::test_shots_without_noise_are_wanted_as_they_are",
    ),
    Fault(
        "restoration/shots.py",
        "measured[:, 1] = 1 - measured[:, 0] - measured[:, 2]",
        "measured[:, 1] = 1 - measured[:, 0]",
        "tests/restoration/test_shots.py::test_a_sensor_interpolates_flat_light_exactly",
    ),
    Fault(
        "models/noise_level_net.py",
        "kernel = kernel - kernel.mean((2, 3), keepdim=True)",
        "kernel = 1 * kernel",
        "tests/models/test_noise_level_net.py",
    ),
    Fault(
        "models/model.py",
        "    if number != count:",
        "    if number < count:",
        "tests/models/test_models.py::test_a_small_file_cannot_ask_for_much_memory",
    ),
    Fault(
        "training/noise_level.py",
        "lean = DOUBT * camera",
        "lean = -DOUBT * camera",
        "tests/training/test_noise_level.py",
    ),
    Fault(
        "training/checkpoint.py",
        "held.enter_context(locked(self.path))",
        "pass",
        "tests/training/test_loop.py::test_two_trainings_in_one_folder_are_refused",
    ),
    Fault(
        "imaging/photo_noise.py",
        "blocks.all((1, 3))",
        "blocks.any((1, 3))",
        "tests/imaging/test_photo_noise.py",
    ),
    Fault(
        "imaging/photo_noise.py",
        "max(side - TILE, 0)",
        "0",
        "tests/imaging/test_photo_noise.py",
    ),
    Fault(
        "imaging/photo_noise.py",
        "if 2 * finest >= fine else 0.0",
        "",
        "tests/imaging/test_photo_noise.py",
    ),
    Fault(
        "imaging/photo_noise.py",
        "tenth if tenth > RISE * fine else 0",
        "tenth",
        "tests/imaging/test_photo_noise.py",
    ),
    Fault(
        "imaging/photo_noise.py",
        "max(smooth, tenth if tenth > RISE * fine else 0)",
        "smooth",
        "tests/imaging/test_photo_noise.py",
    ),
    Fault(
        "imaging/photo_noise.py",
        "(coarse - 2 * fine)",
        "(coarse - fine)",
        "tests/imaging/test_photo_noise.py",
    ),
    Fault(
        "restoration/jpeg.py",
        "200 - 2 * quality",
        "200 - quality",
        "tests/restoration/test_jpeg.py",
    ),
    Fault(
        "restoration/upscaling.py",
        "black + (white - black) * jpeg(",
        "jpeg(",
        "tests/training/test_super_resolution.py::TestCompressed",
    ),
    Fault(
        "kernels/blocked.py",
        "in_place = overwrite_z and z is not None and z.stride() == a.stride()",
        "in_place = z is not None",
        "tests/kernels/test_blocked.py",
    ),
    Fault(
        "hardware.py",
        "torch.float32 if device.type in WITHOUT_FLOAT64 else torch.float64",
        "torch.float64",
        "tests/test_devices.py",
    ),
    Fault(
        "solvers/homotopy.py",
        "goes_out=soonest > fastest",
        "goes_out=soonest < fastest",
        "tests/solvers/test_homotopy.py",
    ),
    Fault(
        "solvers/dual_newton.py",
        "if index == self.low_steps:",
        "if index - 1 == self.low_steps:",
        "tests/solvers/test_newton.py",
    ),
    Fault(
        "solvers/pivots.py",
        "REFINEMENTS = 2",
        "REFINEMENTS = 0",
        "tests/solvers/test_pivots.py",
    ),
    Fault(
        "solvers/exchange.py",
        "-1 / own.gather(-1, place)",
        "1 / own.gather(-1, place)",
        "tests/solvers/test_active_set.py tests/solvers/test_homotopy.py",
    ),
    Fault(
        "solvers/active_set.py",
        "pull / total, 0.0)",
        "0 * pull + 1, 0.0)",
        "tests/solvers/test_active_set.py::test_exact_in_few_steps",
    ),
    Fault(
        "solvers/active_set.py",
        "excess > (1 + TIE) * level",
        "excess > 2 * level",
        "tests/solvers/test_active_set.py",
    ),
    Fault(
        "solvers/active_set.py",
        "torch.where(y * state.sign < 0, -state.sign, state.sign)",
        "state.sign",
        "tests/solvers/test_active_set.py",
    ),
    Fault(
        "functional.py",
        "(5.0, 2.0, inf)",
        "(4.0, 2.0, inf)",
        "tests/test_examples.py::test_the_example_runs[functional.dual_exponent]",
    ),
    Fault(
        "sets/lp_ball.py",
        """
    >>> import fwnet, torch
    >>> ball = fwnet.LpBall(p=2.0, radius=5.0)
    >>> ball.lmo(torch.tensor([3.0, -4.0]))
    tensor([-3.,  4.])
    >>> z = ball.project(torch.tensor([6.0, 8.0]))
    >>> z, ball.gauge(z), ball.contains(z)
    (tensor([3., 4.]), tensor(1.), tensor(True))
""",
        "",
        "tests/test_examples.py::test_the_example_runs[sets.LpBall]",
    ),
    Fault(
        "export.py",
        "if not difference <= TOLERANCE:",
        "if difference > TOLERANCE:",
        "tests/test_export.py::test_a_network_that_differs_is_not_written",
    ),
    Fault(
        "models/hub.py",
        "SAFETENSORS_SINGLE_FILE, self.notes)",
        "SAFETENSORS_SINGLE_FILE)",
        "tests/models/test_hub.py::test_a_folder_holds_the_model_and_nothing_pickled",
    ),
    Fault(
        "models/model.py",
        "if not isinstance(model, cls):",
        "if not isinstance(model, Model):",
        "tests/models/test_hub.py::test_a_model_of_another_class_is_refused",
    ),
    Fault(
        "app/photos.py",
        "with_options(sigma=photo.sigma, strength=strength)",
        "with_options(sigma=photo.sigma)",
        "tests/app/test_photos.py::test_strength_is_seen_in_the_middle",
    ),
    Fault(
        "app/photos.py",
        "photo.about.turned(Pixels(with_bits(one, 8)).pillow())",
        "Pixels(with_bits(one, 8)).pillow()",
        "tests/app/test_photos.py::test_enlarging",
    ),
    Fault(
        "app/exponents.py",
        "        stopped.set()\n",
        "",
        "tests/app/test_exponents.py::test_leaving_stops_the_training",
    ),
    Fault(
        "drawing.py",
        '.replace("#000000", "currentColor")',
        "",
        "tests/app/test_exponents.py::test_every_p_has_figures_and_a_certificate",
    ),
    Fault(
        "sets/simplex.py",
        "z = z * free + cap * full",
        "z = z * free",
        "tests/sets/test_sets.py::TestSimplex",
    ),
    Fault(
        "sets/simplex.py",
        "(widened(y).topk(len(shares), -1).values * shares)",
        "(widened(y).topk(len(shares), -1).values)",
        "tests/sets/test_sets.py::TestSimplex",
    ),
    Fault(
        "solvers/splitting.py",
        "torch.add(s, step, alpha=2)",
        "torch.add(s, step)",
        "tests/solvers/test_sets.py::test_codes_take_few_steps",
    ),
    Fault(
        "sets/k_support_ball.py",
        "(full / (1 + mu) + part) - threshold * part",
        "(full / (1 + mu) + part)",
        "tests/sets/test_sets.py::TestKSupportBall",
    ),
    Fault(
        "sets/sorted_l1_ball.py",
        "means[:, 1:] > means[:, :-1]",
        "means[:, 1:] > means[:, 1:]",
        "tests/sets/test_sets.py::TestSortedL1Ball",
    ),
    Fault(
        "sets/group_lp_ball.py",
        "-outer.unsqueeze(-1) * inner",
        "outer.unsqueeze(-1) * inner",
        "tests/sets/test_sets.py::TestGroupLpBall",
    ),
    Fault(
        "sets/nonnegative_lp_ball.py",
        "self._ball.lmo(u.clamp(max=0))",
        "self._ball.lmo(u)",
        "tests/sets/test_sets.py::TestNonnegativeLpBall",
    ),
    Fault(
        "solvers/any_set.py",
        "x = x - problem.decode(origin.expand(len(x), -1))",
        "x = x - 0",
        "tests/solvers/test_sets.py::test_codes_are_certified",
    ),
    Fault(
        "solvers/any_set.py",
        "return g + damped(e)",
        "return g + e",
        "tests/solvers/test_sets.py::test_gradients_agree_with_differences",
    ),
    Fault(
        "solvers/minimization.py",
        "chosen = (dot(gradient, bad - z) > gap) & (share < 1)",
        "chosen = share > 1",
        "tests/solvers/test_minimize.py",
    ),
    Fault(
        "solvers/minimization.py",
        "usable = (value <= highest) | ((here > 0) & value.isfinite())",
        "usable = here == here",
        "tests/solvers/test_minimize.py",
    ),
    Fault(
        "nn/unrolled.py",
        "return s if z is None else torch.lerp(z, s, step_size.to(s))",
        "return step_size.to(s) * s if z is None else torch.lerp(z, s, step_size.to(s))",
        "tests/models/test_sets.py",
    ),
    Fault(
        "nn/line_search.py",
        "direction = direction - (shares * directions).sum(-2)",
        "direction = direction - 0 * (shares * directions).sum(-2)",
        "tests/nn/test_line_search.py::test_no_conjugate_step_undoes_another",
    ),
    Fault(
        "nn/line_search.py",
        "residual = residual - gamma * image",
        "residual = residual - image",
        "tests/nn/test_line_search.py::test_exact_steps_are_frank_wolfe_with_a_line_search",
    ),
    Fault(
        "nn/line_search.py",
        "torch.minimum(gamma.clamp(min=0), self._limit(t, x))",
        "gamma.clamp(min=0)",
        "tests/nn/test_line_search.py::test_exact_steps_are_frank_wolfe_with_a_line_search",
    ),
    Fault(
        "functional.py",
        "(ordered.cumsum(-1) - radius) / counts",
        "(ordered.cumsum(-1) - radius) / (counts + 1)",
        "tests/nn/test_line_search.py::test_shrink_is_the_projection_and_leaves_free_entries",
    ),
    Fault(
        "models/lista.py",
        "min((t + 1) * self.free_entries, self.num_atoms)",
        "min((t + 2) * self.free_entries, self.num_atoms)",
        "tests/models/test_models.py::test_lista_keeps_its_free_entries",
    ),
    Fault(
        "coding/coder_network.py",
        "used < MOST_USED * codes.shape[1]",
        "used > MOST_USED * codes.shape[1]",
        "tests/coding/test_coder_network.py",
    ),
]


def check_texts(faults: list[Fault]) -> None:
    """Exit with a list of the faults whose text `before` does not occur once."""
    found = ((one, (SOURCES / "fwnet" / one.file).read_text("utf-8")) for one in faults)
    stale = [(one, text.count(one.before)) for one, text in found if text.count(one.before) != 1]
    if stale:
        lines = [f"{one.file}: expected {one.before!r} once, got {n}" for one, n in stale]
        sys.exit("\n".join(lines))


def check_tests(faults: list[Fault], num_workers: int) -> None:
    """Exit unless all tests pass without a mistake; else they would seem to catch every one."""
    tests = dict.fromkeys(test for fault in faults for test in fault.tests.split())
    result = run_tests([*tests, "-n", str(num_workers)], SOURCES)
    if result.returncode != 0:
        sys.exit(f"the tests must pass without a mistake:\n{result.stdout[-2000:]}")


def run_tests(arguments: list[str], sources: Path) -> subprocess.CompletedProcess[str]:
    """Run pytest with the sources of a folder, up to the first failure."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    environment = {
        **os.environ,
        "PYTHONPATH": str(sources),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.run(
        [*command, *arguments],
        cwd=PROJECT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def first_failure(fault: Fault, sources: Path) -> str | None:
    """Return the test that fails when the mistake is made in a copy of the sources."""
    path = sources / "fwnet" / fault.file
    right = path.read_text(encoding="utf-8")
    path.write_text(right.replace(fault.before, fault.after), encoding="utf-8")
    try:
        result = run_tests(fault.tests.split(), sources)
    finally:
        path.write_text(right, encoding="utf-8")
    if result.returncode != 1:  # 0: all passed; others: pytest found no tests, or could not run
        return None
    found = re.search(r"^FAILED (.+?)(?: - |$)", result.stdout, re.M)
    return found[1] if found else "a test that could not start"


def main() -> None:
    """Try every fault, or those whose file matches; exit 1 if one survives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("match", nargs="?", default="", help="only faults in files that match")
    parser.add_argument("--table", type=Path, help="write the table as Markdown")
    parser.add_argument("--workers", type=int, default=2, help="faults to try at the same time")
    options = parser.parse_args()
    chosen = [fault for fault in FAULTS if options.match in fault.file]
    check_texts(chosen)
    check_tests(chosen, options.workers)
    free: Queue[Path] = Queue()

    def tried(fault: Fault) -> str | None:
        sources = free.get()
        try:
            caught = first_failure(fault, sources)
        finally:
            free.put(sources)
        print(f"{fault.file}: {caught or f'SURVIVED: {fault.after!r}'}", flush=True)
        return caught

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.workers) as threads:
        for number in range(options.workers):
            sources = Path(folder) / str(number)
            shutil.copytree(SOURCES, sources, ignore=shutil.ignore_patterns("__pycache__"))
            free.put(sources)
        caught = list(threads.map(tried, chosen))
    num_caught = sum(test is not None for test in caught)
    print(f"{num_caught} of {len(chosen)} faults were caught")
    if options.table:
        options.table.write_text(table(chosen, caught), encoding="utf-8")
    sys.exit(num_caught < len(chosen))


def table(faults: list[Fault], caught: list[str | None]) -> str:
    """Return the faults, and the first test that noticed each, as Markdown."""
    lines = [
        "# Deliberate faults",
        "",
        "Written by `python -m tests.deliberate_faults --table tests/FAULTS.md`.",
        "",
        "| file | right | wrong | caught by |",
        "|---|---|---|---|",
    ]
    for fault, test in zip(faults, caught, strict=True):
        right, wrong = (
            f"`{' '.join(text.split())}`".replace("|", "\\|") if text.strip() else "(nothing)"
            for text in (fault.before, fault.after)
        )
        lines.append(f"| {fault.file} | {right} | {wrong} | {test or '**nothing**'} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
