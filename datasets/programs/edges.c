// edges: Canny edge detection: Gaussian blur, Sobel, non-maximum suppression, hysteresis, contour labels

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    int width, height;
    int16_t *pixel;
} Image;

typedef struct {
    int cells, left, top, right, bottom;
} Contour;

static uint32_t noise_state = 0xC0FFEEu;

static int noise(int amplitude)
{
    noise_state = noise_state * 22695477u + 1u;
    return (int)(noise_state >> 16) % (2 * amplitude + 1) - amplitude;
}

static Image image_new(int width, int height)
{
    Image im = {width, height, calloc((size_t)width * (size_t)height, sizeof(int16_t))};
    if (im.pixel == NULL) {
        puts("edges: out of memory");
        exit(1);
    }
    return im;
}

static int clamp(int value, int low, int high)
{
    return value < low ? low : value > high ? high : value;
}

/* Outside the image, the nearest pixel inside. */
static int pixel_at(const Image *im, int x, int y)
{
    return im->pixel[clamp(y, 0, im->height - 1) * im->width + clamp(x, 0, im->width - 1)];
}

static void set_pixel(Image *im, int x, int y, int value)
{
    im->pixel[y * im->width + x] = (int16_t)value;
}

static void draw_disc(Image *im, int cx, int cy, int radius, int shade)
{
    for (int y = cy - radius; y <= cy + radius; y++)
        for (int x = cx - radius; x <= cx + radius; x++)
            if (x >= 0 && y >= 0 && x < im->width && y < im->height &&
                (x - cx) * (x - cx) + (y - cy) * (y - cy) <= radius * radius)
                set_pixel(im, x, y, shade);
}

static void draw_box(Image *im, int left, int top, int width, int height, int shade)
{
    for (int y = top; y < top + height && y < im->height; y++)
        for (int x = left; x < left + width && x < im->width; x++)
            set_pixel(im, x, y, shade);
}

/* Half-plane test against the three sides, which run counter-clockwise on the screen. */
static void draw_triangle(Image *im, const int corner[3][2], int shade)
{
    for (int y = 0; y < im->height; y++) {
        for (int x = 0; x < im->width; x++) {
            bool inside = true;
            for (int i = 0; i < 3 && inside; i++) {
                const int *a = corner[i], *b = corner[(i + 1) % 3];
                inside = (b[0] - a[0]) * (y - a[1]) - (b[1] - a[1]) * (x - a[0]) >= 0;
            }
            if (inside)
                set_pixel(im, x, y, shade);
        }
    }
}

static Image draw_scene(int width, int height)
{
    Image im = image_new(width, height);
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            set_pixel(&im, x, y, 40 + 50 * x / width + 30 * y / height);
    draw_disc(&im, width / 4, height / 3, height / 5, 200);
    draw_disc(&im, width / 4, height / 3, height / 9, 90);
    draw_box(&im, width / 2, height / 8, width / 3, height / 4, 170);
    draw_box(&im, width / 2 + width / 12, height / 6, width / 6, height / 8, 20);
    const int corner[3][2] = {{width / 6, height * 9 / 10}, {width / 2, height * 11 / 20}, {width * 7 / 8, height * 7 / 8}};
    draw_triangle(&im, corner, 220);
    for (int i = 0; i < width * height; i++)
        im.pixel[i] = (int16_t)clamp(im.pixel[i] + noise(6), 0, 255);
    return im;
}

/* Weights in 1/256, made from the bell curve and repaired so that they add up to exactly 256. */
static int gaussian_kernel(double sigma, int *weight, int max_radius)
{
    int radius = clamp((int)ceil(3.0 * sigma), 1, max_radius), sum = 0;
    double total = 0.0;
    for (int i = -radius; i <= radius; i++)
        total += exp(-i * i / (2.0 * sigma * sigma));
    for (int i = -radius; i <= radius; i++) {
        weight[i + radius] = (int)(256.0 * exp(-i * i / (2.0 * sigma * sigma)) / total + 0.5);
        sum += weight[i + radius];
    }
    weight[radius] += 256 - sum;
    return radius;
}

static Image blur(const Image *im, double sigma)
{
    int weight[15];
    int radius = gaussian_kernel(sigma, weight, 7);
    Image across = image_new(im->width, im->height), out = image_new(im->width, im->height);
    for (int y = 0; y < im->height; y++) {
        for (int x = 0; x < im->width; x++) {
            int sum = 0;
            for (int k = -radius; k <= radius; k++)
                sum += weight[k + radius] * pixel_at(im, x + k, y);
            set_pixel(&across, x, y, (sum * 16 + 128) / 256); /* four more bits between the passes */
        }
    }
    for (int y = 0; y < im->height; y++) {
        for (int x = 0; x < im->width; x++) {
            int sum = 0;
            for (int k = -radius; k <= radius; k++)
                sum += weight[k + radius] * pixel_at(&across, x, y + k);
            set_pixel(&out, x, y, (sum + 2048) / 4096);
        }
    }
    free(across.pixel);
    return out;
}

static void sobel(const Image *im, Image *gx, Image *gy, Image *magnitude)
{
    for (int y = 0; y < im->height; y++) {
        for (int x = 0; x < im->width; x++) {
            int nw = pixel_at(im, x - 1, y - 1), n = pixel_at(im, x, y - 1), ne = pixel_at(im, x + 1, y - 1);
            int w = pixel_at(im, x - 1, y), e = pixel_at(im, x + 1, y);
            int sw = pixel_at(im, x - 1, y + 1), s = pixel_at(im, x, y + 1), se = pixel_at(im, x + 1, y + 1);
            int dx = ne + 2 * e + se - nw - 2 * w - sw, dy = sw + 2 * s + se - nw - 2 * n - ne;
            set_pixel(gx, x, y, dx);
            set_pixel(gy, x, y, dy);
            set_pixel(magnitude, x, y, (int)sqrt((double)(dx * dx + dy * dy)));
        }
    }
}

/* 0 east, 1 south-east, 2 south, 3 south-west; tan(22.5 degrees) is close to 53/128. */
static int sector(int dx, int dy)
{
    int ax = abs(dx), ay = abs(dy);
    if (128 * ay <= 53 * ax)
        return 0;
    if (128 * ax <= 53 * ay)
        return 2;
    return (dx > 0) == (dy > 0) ? 1 : 3;
}

static Image suppress(const Image *gx, const Image *gy, const Image *magnitude)
{
    static const int step[4][2] = {{1, 0}, {1, 1}, {0, 1}, {-1, 1}};
    Image thin = image_new(magnitude->width, magnitude->height);
    for (int y = 1; y < magnitude->height - 1; y++) {
        for (int x = 1; x < magnitude->width - 1; x++) {
            int i = y * magnitude->width + x;
            const int *d = step[sector(gx->pixel[i], gy->pixel[i])];
            int here = magnitude->pixel[i];
            if (here > pixel_at(magnitude, x + d[0], y + d[1]) && here >= pixel_at(magnitude, x - d[0], y - d[1]))
                thin.pixel[i] = (int16_t)here;
        }
    }
    return thin;
}

/* Otsu's threshold between strong and weak gradients, over a histogram of 256 bins. */
static int split_gradients(const Image *magnitude)
{
    int64_t count[256] = {0}, total = 0, weighted = 0, below = 0, weighted_below = 0;
    int best = 0;
    double best_spread = -1.0;
    for (int i = 0; i < magnitude->width * magnitude->height; i++)
        count[clamp(magnitude->pixel[i] / 4, 0, 255)]++;
    for (int b = 0; b < 256; b++) {
        total += count[b];
        weighted += b * count[b];
    }
    for (int b = 0; b < 255; b++) {
        below += count[b];
        weighted_below += b * count[b];
        int64_t above = total - below;
        if (below == 0 || above == 0)
            continue;
        double gap = (double)weighted_below / (double)below - (double)(weighted - weighted_below) / (double)above;
        double spread = (double)below * (double)above * gap * gap;
        if (spread > best_spread * (1.0 + 1e-12)) {
            best_spread = spread;
            best = b;
        }
    }
    return best * 4;
}

/* Keeps strong pixels and the weak ones connected to them; each contour found gets the next label. */
static int trace(const Image *thin, int low, int high, Image *label, Contour *contours, int room)
{
    int cells = thin->width * thin->height, found = 0;
    int *stack = malloc(sizeof(int) * (size_t)cells);
    if (stack == NULL)
        exit(1);
    for (int start = 0; start < cells; start++) {
        if (thin->pixel[start] < high || label->pixel[start] != 0 || found == room)
            continue;
        Contour c = {0, thin->width, thin->height, 0, 0};
        int depth = 0;
        label->pixel[start] = (int16_t)++found;
        stack[depth++] = start;
        while (depth > 0) {
            int i = stack[--depth], x = i % thin->width, y = i / thin->width;
            c.cells++;
            c.left = x < c.left ? x : c.left;
            c.right = x > c.right ? x : c.right;
            c.top = y < c.top ? y : c.top;
            c.bottom = y > c.bottom ? y : c.bottom;
            for (int dy = -1; dy <= 1; dy++) {
                for (int dx = -1; dx <= 1; dx++) {
                    int near_x = x + dx, near_y = y + dy;
                    if (near_x < 0 || near_y < 0 || near_x >= thin->width || near_y >= thin->height)
                        continue;
                    int j = near_y * thin->width + near_x;
                    if (thin->pixel[j] >= low && label->pixel[j] == 0) {
                        label->pixel[j] = (int16_t)found;
                        stack[depth++] = j;
                    }
                }
            }
        }
        contours[found - 1] = c;
    }
    free(stack);
    return found;
}

static int compare_contours(const void *left, const void *right)
{
    const Contour *a = left, *b = right;
    if (a->cells != b->cells)
        return b->cells - a->cells;
    if (a->top != b->top)
        return a->top - b->top;
    return a->left - b->left;
}

static uint32_t checksum(const Image *im)
{
    uint32_t a = 1, b = 0;
    for (int i = 0; i < im->width * im->height; i++) {
        a = (a + (uint16_t)im->pixel[i]) % 65521u;
        b = (b + a) % 65521u;
    }
    return b << 16 | a;
}

static void print_thumbnail(const Image *label)
{
    enum { ROWS = 14, COLUMNS = 56 };
    for (int r = 0; r < ROWS; r++) {
        for (int c = 0; c < COLUMNS; c++) {
            bool edge = false;
            for (int y = r * label->height / ROWS; y < (r + 1) * label->height / ROWS; y++)
                for (int x = c * label->width / COLUMNS; x < (c + 1) * label->width / COLUMNS; x++)
                    edge = edge || pixel_at(label, x, y) != 0;
            putchar(edge ? '*' : ' ');
        }
        puts("|");
    }
}

int main(int argc, char **argv)
{
    enum { MAX_CONTOURS = 2000 };
    static Contour contours[MAX_CONTOURS];
    int scale = 1;
    if (argc > 1) {
        if (strcmp(argv[1], "medium") == 0)
            scale = 6;
        else if (strcmp(argv[1], "large") == 0)
            scale = 18;
        else if (strcmp(argv[1], "small") != 0) {
            puts("usage: edges [small|medium|large]");
            return 2;
        }
    }
    Image scene = draw_scene(96 * scale, 72 * scale);
    Image smooth = blur(&scene, scale == 1 ? 0.9 : 1.4);
    Image gx = image_new(scene.width, scene.height), gy = image_new(scene.width, scene.height);
    Image magnitude = image_new(scene.width, scene.height), label = image_new(scene.width, scene.height);
    sobel(&smooth, &gx, &gy, &magnitude);
    Image thin = suppress(&gx, &gy, &magnitude);
    int high = split_gradients(&magnitude);
    int found = trace(&thin, high * 2 / 5, high, &label, contours, MAX_CONTOURS);
    qsort(contours, (size_t)found, sizeof contours[0], compare_contours);
    printf("scene %08x blurred %08x gradient %08x thin %08x\n", (unsigned)checksum(&scene), (unsigned)checksum(&smooth),
           (unsigned)checksum(&magnitude), (unsigned)checksum(&thin));
    printf("threshold %d, %d contours, labels %08x\n", high, found, (unsigned)checksum(&label));
    for (int i = 0; i < found && i < 4; i++)
        printf("contour of %d pixels from (%d, %d) to (%d, %d)\n", contours[i].cells, contours[i].left, contours[i].top,
               contours[i].right, contours[i].bottom);
    print_thumbnail(&label);
    Image *images[] = {&scene, &smooth, &gx, &gy, &magnitude, &label, &thin};
    for (int i = 0; i < 7; i++)
        free(images[i]->pixel);
    return 0;
}
